"""Kafka through Spark into Kafka: the fenced path against Spark's own Kafka sink.

Every round runs each contender once over the same topic, with the same settings of the source and no transform, in an
order that rotates. A ratio is the median over the rounds of (the other's time / the fenced time): more than 1 means
that the fenced path is faster. Those of batches of 1,000 rows are the fenced time / the other's: less is better.

    python bench/spark_kafka.py [--quick] [--format json] [--records N] [--rounds N] [--memory]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import psutil
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.support.comparing import PARTITIONS, against, arguments, filled, interleaved, memory_at_5x, note, show, usual

from fencepost.engines.spark.batches import BatchCarrier
from fencepost.engines.spark.session import FIXED, open_session
from fencepost.engines.spark.source import KafkaSource
from fencepost.engines.spark.stream import BatchStream
from fencepost.engines.spark.transform import Transform, resolve
from fencepost.kafka.client import Cluster
from fencepost.kafka.topic_reader import read_committed
from fencepost.kafka.topics import TopicRequest, create_topic, delete_topic
from fencepost.local import Stack
from fencepost.model import TopicPartition
from fencepost.sinks.kafka.kind import KIND
from fencepost.spec import PipelineSpec

TUNED = {"kafka.linger.ms": "20", "kafka.batch.size": str(256 << 10), "kafka.compression.type": "lz4"}
CHECKPOINTS = "spark.sql.streaming.checkpointFileManagerClass"
DEFAULT_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"


@dataclass
class Bench:
    """One stack, one session, one topic."""

    stack: Stack
    spark: SparkSession
    topic: str
    records: int

    def over(self, topic: str, records: int) -> Bench:
        """The same over another topic."""
        return replace(self, topic=topic, records=records)

    @property
    def kafka(self) -> dict[str, str]:
        return {"bootstrap.servers": self.stack.bootstrap_servers}

    def spec(self, target: str, settings: dict[str, str] | None = None) -> PipelineSpec:
        return PipelineSpec.model_validate(
            {
                "name": target,
                "guarantee": "exactly-once",
                "kafka": self.kafka | (settings or {}),
                "source": {"topic": self.topic},
                "sink": {"format": "kafka", "options": {"topic": target}},
            }
        )

    def transform(self, spec: PipelineSpec, batch: int | None = None) -> Transform:
        return resolve(self.spark, spec, KafkaSource(spec.source, spec.kafka, batch or spec.batch.records))

    @contextmanager
    def fresh_topic(self) -> Iterator[str]:
        target = f"out-{uuid4().hex[:8]}"
        with Cluster(self.kafka) as cluster:
            create_topic(cluster, TopicRequest(target, PARTITIONS))
            try:
                yield target
                found = sum(1 for _ in read_committed(self.kafka, target))
                assert found == self.records, found
            finally:
                delete_topic(cluster, target)

    # -- the contenders, each over the whole topic: the times of its batches

    def fenced(self, batch: int | None = None, settings: dict[str, str] | None = None) -> list[float]:
        with self.fresh_topic() as name:
            spec = self.spec(name, settings)
            transform = self.transform(spec, batch)
            target = KIND.prepare(spec.job, transform.columns)
            with closing(target.open()) as store:
                tenure = store.take_over(spec.name, uuid4(), self._first(), {})
            marks: list[float] = []
            stream = BatchStream(
                BatchCarrier(self.spark, transform, spec.guarantee, KIND, target, tenure),
                transform.source,
                lambda _: marks.append(perf_counter()),
            )
            marks.append(perf_counter())
            stream.carry(once=True, every="0 seconds")
            marks[-1] = perf_counter()  # the end of the query belongs to its last batch
            return [after - before for before, after in pairwise(marks)]

    def own_sink(self, batch: int | None = None, settings: dict[str, str] | None = None) -> list[float]:
        """Spark's Kafka sink, as a stream's own; its batches by Spark's own measure where there are several."""
        with self.fresh_topic() as name:
            transform = self.transform(self.spec(name), batch)
            rows = transform.source.stream(self.spark, self._first()).select("key", "value", "headers")
            options = {"kafka.bootstrap.servers": self.stack.bootstrap_servers, "topic": name, **(settings or {})}
            with tempfile.TemporaryDirectory() as folder, self._default_checkpoints():
                writer = rows.writeStream.format("kafka").options(**options)
                begun = perf_counter()
                query = writer.option("checkpointLocation", Path(folder).as_uri()).trigger(availableNow=True).start()
                query.awaitTermination()
                whole = perf_counter() - begun
                if batch is None:
                    return [whole]
                told = [one["durationMs"]["triggerExecution"] / 1000 for one in query.recentProgress]
                return told or [whole]

    def empty(self, batch: int) -> list[float]:
        """foreachBatch that does nothing."""
        marks: list[float] = []
        transform = self.transform(self.spec("nowhere"), batch)
        with tempfile.TemporaryDirectory() as folder, self._default_checkpoints():
            stream = transform.source.stream(self.spark, self._first())
            writer = stream.writeStream.foreachBatch(lambda _rows, _number: marks.append(perf_counter()))
            marks.append(perf_counter())
            query = writer.option("checkpointLocation", Path(folder).as_uri()).trigger(availableNow=True).start()
            query.awaitTermination()
        return [after - before for before, after in pairwise(marks)]

    @contextmanager
    def _default_checkpoints(self) -> Iterator[None]:
        self.spark.conf.set(CHECKPOINTS, DEFAULT_CHECKPOINTS)
        try:
            yield
        finally:
            self.spark.conf.set(CHECKPOINTS, FIXED[CHECKPOINTS])

    def _first(self) -> dict[TopicPartition, int]:
        return {TopicPartition(self.topic, number): 0 for number in range(PARTITIONS)}


def compare(bench: Bench, rounds: int) -> dict[str, float]:
    contenders: dict[str, Callable[[], float]] = {
        "fenced": lambda: sum(bench.fenced()),
        "spark_sink": lambda: sum(bench.own_sink()),
        "spark_sink_tuned": lambda: sum(bench.own_sink(settings=TUNED)),
    }
    return against(interleaved(contenders, rounds), "fenced")


def small_batches(bench: Bench, size: int) -> dict[str, float]:
    fenced, own, empty = map(usual, (bench.fenced(size), bench.own_sink(size), bench.empty(size)))
    note(f"a batch of {size:,}: fenced {fenced:.3f} s, Spark's sink {own:.3f} s, empty foreachBatch {empty:.3f} s")
    return {
        "batch_of_1000_over_spark_sink": round(fenced / own, 2),
        "batch_of_1000_over_empty_foreachBatch": round(fenced / empty, 2),
    }


def main() -> None:
    given = arguments(__doc__, "20,000 records, two rounds", memory=True).parse_args()
    records, rounds, few = (20_000, 2, 6_000) if given.quick else (given.records, given.rounds, 30_000)
    result: dict[str, Any] = {"records": records, "rounds": rounds}
    with Stack.temporary() as stack:
        others = {process.pid for process in psutil.Process().children()}
        with open_session("bench", {"spark.master": "local[2]"}) as spark:
            bench = Bench(stack, spark, filled(stack, records), records)
            note(f"{records:,} records of about 120 bytes in {PARTITIONS} partitions")
            ratios = compare(bench, rounds)
            ratios |= small_batches(bench.over(filled(stack, few), few), 1_000)
            if given.memory:
                five = bench.over(filled(stack, 5 * records), 5 * records)
                ratios["peak_memory_at_5x"] = memory_at_5x(others, bench.fenced, five.fenced)
            result["ratios"] = ratios
    show(result, given.format)


if __name__ == "__main__":
    main()
