"""Fencepost: declare a delivery guarantee in one word, and have it kept and proven."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from fencepost.errors import FencepostError
from fencepost.guarantee import Guarantee

if TYPE_CHECKING:
    from fencepost.pipeline import Pipeline

__version__ = version("fencepost")
__all__ = ["FencepostError", "Guarantee", "Pipeline", "__version__"]


def __getattr__(name: str) -> object:
    """`fencepost.Pipeline`, loaded when it is first asked for: `fencepost --help` stays quick."""
    if name == "Pipeline":
        from fencepost.pipeline import Pipeline

        return Pipeline
    raise AttributeError(f"module 'fencepost' has no attribute {name!r}")
