"""A table in SQLite as a sink of Fencepost."""

from .kind import KIND

__all__ = ["KIND"]
