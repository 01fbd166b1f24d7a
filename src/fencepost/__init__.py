"""Fencepost: declare a delivery guarantee in one word, and have it kept and proven."""

from importlib.metadata import version

from fencepost.errors import FencepostError
from fencepost.guarantee import Guarantee

__version__ = version("fencepost")
__all__ = ["FencepostError", "Guarantee", "__version__"]
