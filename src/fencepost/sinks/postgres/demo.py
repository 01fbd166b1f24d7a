"""PostgreSQL in the demo; beside it foreachBatch with Spark's JDBC append."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.sinks.demo import Demo, draining
from fencepost.sinks.kind import SinkJob
from fencepost.sinks.postgres.jdbc import jdbc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def _drain(job: SinkJob, orders: DataFrame, checkpoint: str) -> StreamingQuery:
    url, properties = jdbc(job.options.dsn or "")
    properties |= {"ApplicationName": "foreachBatch", "currentSchema": "public"}

    def append(batch: DataFrame, _number: int) -> None:
        batch.write.jdbc(url, job.options.table, mode="append", properties=properties)

    return draining(orders.select("id").writeStream.foreachBatch(append), checkpoint).start()


DEMO = Demo(
    "PostgreSQL",
    "SELECT id, customer, amount, placed_at, _from FROM events",
    lambda name, dsn, _folder: {"table": name, "dsn": dsn},
    "foreachBatch with Spark's JDBC append",
    _drain,
)
