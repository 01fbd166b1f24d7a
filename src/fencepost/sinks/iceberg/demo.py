"""An Iceberg table in the demo, its catalog in the stack's PostgreSQL; beside it Iceberg's own streaming sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.sinks.demo import Demo, draining
from fencepost.sinks.kind import SinkJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def _drain(job: SinkJob, orders: DataFrame, checkpoint: str) -> StreamingQuery:
    return draining(orders.select("id").writeStream.format("iceberg"), checkpoint).toTable(job.options.name)


DEMO = Demo(
    "an Iceberg table",
    "SELECT id, customer, amount, placed_at, _from FROM events",
    lambda name, dsn, folder: {"table": f"shop.{name}", "warehouse": str(folder / "warehouse"), "dsn": dsn},
    "Iceberg's own streaming sink",
    _drain,
    outlives_kills=True,
)
