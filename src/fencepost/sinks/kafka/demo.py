"""Topics in the demo; beside them Spark's own Kafka sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.sinks.demo import Demo, draining
from fencepost.sinks.kind import SinkJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def _drain(job: SinkJob, orders: DataFrame, checkpoint: str) -> StreamingQuery:
    servers = job.kafka["bootstrap.servers"]
    writer = orders.select("value").writeStream.format("kafka").option("kafka.bootstrap.servers", servers)
    return draining(writer.option("topic", job.options.topic), checkpoint).start()


DEMO = Demo(
    "another topic",
    "SELECT key, value, headers, _from FROM events",
    lambda name, _dsn, _folder: {"topic": name},
    "Spark's own Kafka sink",
    _drain,
)
