"""A flow through somebody's own stream: his session, his checkpoint, his transform."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from fencepost.delivery import Observer, nobody
from fencepost.engines.listener import BatchDone, News
from fencepost.engines.spark.own_stream import OwnStream
from fencepost.spark import starting_offsets
from spark.flows import SCHEMA, Flow

Change = Callable[[DataFrame], DataFrame]
SOURCE = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}


def ids(records: DataFrame) -> DataFrame:
    """What the author of the stream makes of it, with the columns that say where a row came from."""
    event = f.from_json(f.col("value").cast("string"), SCHEMA)
    return records.select(event["id"].alias("id"), "topic", "partition", "offset")


@dataclass
class Run:
    """One run of the query, until it was drained or failed."""

    batches: list[BatchDone] = field(default_factory=list)
    error: BaseException | None = None  # as it was raised
    told: str = ""  # what Spark made of it

    @property
    def rows(self) -> int:
        return sum(batch.rows for batch in self.batches)

    @property
    def already(self) -> int:
        return sum(batch.already for batch in self.batches)


class OwnFlow(Flow):
    """The query is drained in this process."""

    def writer(
        self, run: Run, see: Observer = nobody, small: int = 0, guarantee: str = "exactly-once", **options: Any
    ) -> OwnStream:
        def hear(news: News) -> None:
            assert isinstance(news, BatchDone)
            run.batches.append(news)

        parts = {"name": self.name, "guarantee": guarantee, "sink": self.sink_part(options), "batch": {"small": small}}
        return OwnStream(parts, listen=hear, see=see)

    def records(self, spark: SparkSession, **options: str) -> DataFrame:
        return own_records(spark, self.kafka, self.name, {**SOURCE, **options})

    def drain(
        self,
        spark: SparkSession,
        writer: Any,
        run: Run,
        change: Change = ids,
        checkpoint: Path | None = None,
        **options: str,
    ) -> Run:
        """Options of the source by their own names."""
        query = (
            change(self.records(spark, **options))
            .writeStream.foreachBatch(writer)
            .option("checkpointLocation", str(checkpoint or self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        with suppress(StreamingQueryException):
            query.awaitTermination()
        failure = query.exception()
        run.error, run.told = getattr(writer, "error", None), str(failure or "")
        return run

    @contextmanager
    def going_on(self, spark: SparkSession, writer: Any) -> Iterator[StreamingQuery]:
        """The query, until the block ends."""
        query = (
            ids(self.records(spark))
            .writeStream.foreachBatch(writer)
            .option("checkpointLocation", str(self.checkpoint))
            .start()
        )
        try:
            yield query
        finally:
            query.stop()

    def own(self, spark: SparkSession, change: Change = ids, checkpoint: Path | None = None, **parts: Any) -> Run:
        """A writer of its own; its options as `writer` has them, those of the source as `source`."""
        source = parts.pop("source", {})
        run = Run()
        return self.drain(spark, self.writer(run, **parts), run, change, checkpoint, **source)

    def starting_offsets(self) -> str:
        return starting_offsets(self.name, sink=self.sink_part({}), kafka=self.kafka, topics=self.name)

    def settings(self, **parts: Any) -> dict[str, Any]:
        """Of a process of its own."""
        named = {"kafka": self.kafka, "topic": self.name, "name": self.name, "guarantee": "exactly-once"}
        return {**named, "sink": self.sink_part({}), "checkpoint": str(self.checkpoint), **parts}

    @property
    def checkpoint(self) -> Path:
        return self.folder / f"{self.name}_checkpoint"


def own_records(spark: SparkSession, kafka: Mapping[str, str], topic: str, options: Mapping[str, str]) -> DataFrame:
    named = {f"kafka.{name}": value for name, value in kafka.items()}
    return spark.readStream.format("kafka").options(**named, subscribe=topic).options(**options).load()
