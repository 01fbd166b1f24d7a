"""Delta Lake as an atomic sink: a batch's rows and its positions in one commit of the table's own log."""

from fencepost.sinks.delta.store import DeltaStore
from fencepost.sinks.delta.target import DeltaTarget

__all__ = ["DeltaStore", "DeltaTarget"]
