"""Fencepost: declare a delivery guarantee in one word, and have it kept and proven."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from fencepost.errors import FencepostError
from fencepost.guarantee import Guarantee

if TYPE_CHECKING:
    from fencepost.engines.python.consumer import consume
    from fencepost.producing.producer import Producer
    from fencepost.run.pipeline import Pipeline
    from fencepost.sinks.kafka import Output

__version__ = version("fencepost")
__all__ = ["FencepostError", "Guarantee", "Output", "Pipeline", "Producer", "__version__", "consume"]


def __getattr__(name: str) -> object:
    """`fencepost.Pipeline` and the like, loaded when first asked for: `fencepost --help` stays quick."""
    if name == "Pipeline":
        from fencepost.run.pipeline import Pipeline

        return Pipeline
    if name == "Producer":
        from fencepost.producing.producer import Producer

        return Producer
    if name == "consume":
        from fencepost.engines.python.consumer import consume

        return consume
    if name == "Output":
        from fencepost.sinks.kafka import Output

        return Output
    raise AttributeError(f"module 'fencepost' has no attribute {name!r}")
