"""What `fencepost demo` asks of a sink: how a pipeline into it looks, and what people write today instead of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from fencepost.sinks.kind import SinkJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True)
class Demo:
    """One sink's part of it. The demo's events are orders: id, customer, amount, placed_at."""

    into: str  # what the events go into, in words
    transform: str  # SQL
    options: Callable[[str, str, Path], Mapping[str, Any]]  # for a target of this name: a PostgreSQL's dsn, a folder
    recipe: str  # what people write today, in words
    # the recipe: drains a stream with the columns `id` and `value` into the job's target, with this checkpoint
    drain: Callable[[SinkJob, DataFrame, str], StreamingQuery]
    outlives_kills: bool = False  # the recipe, as long as its checkpoint is there: then that is removed as well


@runtime_checkable
class CanBeShown(Protocol):
    """`fencepost demo --sink`."""

    @property
    def demo(self) -> Demo: ...


def draining(writer: DataStreamWriter, checkpoint: str) -> DataStreamWriter:
    """As Spark's own users write it."""
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
