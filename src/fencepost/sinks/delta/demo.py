"""A Delta table in the demo; beside it Spark's own Delta sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.sinks.demo import Demo, draining
from fencepost.sinks.kind import SinkJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def _drain(job: SinkJob, orders: DataFrame, checkpoint: str) -> StreamingQuery:
    return draining(orders.select("id").writeStream.format("delta"), checkpoint).start(job.options.path)


DEMO = Demo(
    "a Delta table",
    "SELECT id, customer, amount, placed_at, _from FROM events",
    lambda name, _dsn, folder: {"path": str(folder / name)},
    "Spark's own Delta sink",
    _drain,
    outlives_kills=True,
)
