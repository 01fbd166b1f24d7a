"""Kafka through Spark into a Delta table: the fenced path against Spark's own streaming sinks.

Every round runs each contender once over the same topic, in an order that rotates, each with the same source settings
and the same rows. A ratio is the median over the rounds of (the other's time / the fenced time): more than 1 means that
the fenced path is faster. `batch_of_1000` is the other way round: our batch over that of Spark's own Delta sink.

    python bench/spark_lake.py [--quick] [--format json] [--records N] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import psutil
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.spark_postgres import PeakMemory, note

from fencepost.engines.spark.session import session_for
from fencepost.engines.spark.source import KafkaSource
from fencepost.engines.spark.stream import BatchStream
from fencepost.engines.spark.transform import Transform, resolve
from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack
from fencepost.model import TopicPartition
from fencepost.producing.sending import Event, send
from fencepost.sinks.delta.kind import KIND
from fencepost.spec import PipelineSpec

PARTITIONS = 4
SQL = "SELECT offset AS id, CAST(value AS string) AS body, _from FROM events"


@dataclass
class Bench:
    """One stack, one session, one topic, one folder for tables."""

    stack: Stack
    spark: SparkSession
    folder: Path
    topic: str
    records: int
    others: set[int]  # processes that are not the job's

    def spec(self, path: Path) -> PipelineSpec:
        return spec_of(self.stack, self.topic, path)

    def transform(self, spec: PipelineSpec, batch: int | None = None) -> Transform:
        return resolve(self.spark, spec, KafkaSource(spec.source, spec.kafka, batch or spec.batch.records))

    @property
    def first(self) -> dict[TopicPartition, int]:
        return {TopicPartition(self.topic, number): 0 for number in range(PARTITIONS)}

    @contextmanager
    def place(self) -> Iterator[Path]:
        path = self.folder / uuid4().hex
        try:
            yield path / "table"
        finally:
            shutil.rmtree(path, ignore_errors=True)

    # -- the contenders, each over the whole topic: seconds from the query's start to its end

    def fenced(self) -> float:
        return sum(self.fenced_batches())

    def fenced_batches(self, batch: int | None = None) -> list[float]:
        with self.place() as path:
            spec = self.spec(path)
            transform = self.transform(spec, batch)
            target = KIND.prepare(spec.job, transform.columns)
            tenure = target.open().take_over(spec.name, uuid4(), self.first, {})
            marks: list[float] = []
            stream = BatchStream(
                self.spark, transform, spec.guarantee, KIND, target, tenure, lambda _: marks.append(perf_counter())
            )
            marks.append(perf_counter())
            stream.carry(once=True, every="0 seconds")
            marks[-1] = perf_counter()  # the end of the query belongs to its last batch
            assert DeltaTable(str(path)).count() == self.records
        return [after - before for before, after in pairwise(marks)]

    def native(self, form: str, batch: int | None = None) -> tuple[float, list[float]]:
        """Spark's own streaming sink of that format, with its checkpoint; the whole time, and that of its batches."""
        with self.place() as path, tempfile.TemporaryDirectory() as checkpoint:
            transform = self.transform(self.spec(path), batch)
            rows = self.rows(transform, transform.source.stream(self.spark, self.first))
            writer = rows.writeStream.format(form).option("checkpointLocation", Path(checkpoint).as_uri())
            began = perf_counter()
            query = writer.trigger(availableNow=True).start(str(path))
            query.awaitTermination()
            took = perf_counter() - began
            landed = DeltaTable(str(path)).count() if form == "delta" else self.spark.read.parquet(str(path)).count()
            assert landed == self.records, landed
            times = [one["durationMs"]["triggerExecution"] / 1000 for one in query.recentProgress]
        return took, times

    def rows(self, transform: Transform, records: DataFrame) -> DataFrame:
        """The same columns as ours."""
        return transform.for_stage(transform.made(records)).selectExpr("*", "0 AS _n")

    def small_batches(self, size: int) -> float:
        ours = self.fenced_batches(size)
        _, theirs = self.native("delta", size)
        return statistics.median(ours[1:]) / statistics.median(theirs[1:] or theirs)


def spec_of(stack: Stack, topic: str, path: Path) -> PipelineSpec:
    return PipelineSpec.model_validate(
        {
            "name": f"bench-{uuid4().hex[:8]}",
            "guarantee": "exactly-once",
            "kafka": {"bootstrap.servers": stack.bootstrap_servers},
            "source": {"topic": topic},
            "transform": {"sql": SQL},
            "sink": {"format": "delta", "options": {"path": str(path)}},
            "spark": {"spark.master": "local[2]", "spark.sql.streaming.numRecentProgressUpdates": "100"},
        }
    )


def compare(bench: Bench, rounds: int) -> dict[str, float]:
    contenders: dict[str, Callable[[], float]] = {
        "fenced": bench.fenced,
        "sparks_own_delta_sink": lambda: bench.native("delta")[0],
        "sparks_own_parquet_sink": lambda: bench.native("parquet")[0],
    }
    for contender in contenders.values():  # warm: classes loaded, code compiled
        contender()
    ratios: dict[str, list[float]] = {name: [] for name in contenders if name != "fenced"}
    for number in range(rounds):
        names = list(contenders)
        order = names[number % len(names) :] + names[: number % len(names)]
        times = {name: contenders[name]() for name in order}
        note(f"round {number + 1} of {rounds}: " + ", ".join(f"{name} {times[name]:.2f} s" for name in names))
        for name, found in ratios.items():
            found.append(times[name] / times["fenced"])
    return {name: round(statistics.median(found), 3) for name, found in ratios.items()}


@contextmanager
def opened(records: int) -> Iterator[Bench]:
    with Stack.temporary() as stack, tempfile.TemporaryDirectory() as folder:
        others = {process.pid for process in psutil.Process().children()}
        with session_for(spec_of(stack, "none", Path(folder) / "none")) as spark:
            yield filled(stack, spark, Path(folder), records, others)


def filled(stack: Stack, spark: SparkSession, folder: Path, records: int, others: set[int]) -> Bench:
    topic = f"bench-{uuid4().hex[:8]}"
    kafka = {"bootstrap.servers": stack.bootstrap_servers}
    create_topic(Cluster(kafka), TopicRequest(topic, PARTITIONS))
    body = "x" * 100
    events = (
        Event(f'{{"id": {number}, "body": "{body}"}}'.encode(), partition=number % PARTITIONS)
        for number in range(records)
    )
    sent = send(kafka, topic, events)
    assert sent.all_acked, sent
    return Bench(stack, spark, folder, topic, records, others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20,000 records, two rounds")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", action="store_true", help="also the peak memory at five times as many records")
    given = parser.parse_args()
    records, rounds = (20_000, 2) if given.quick else (given.records, given.rounds)
    result: dict[str, Any] = {"records": records, "rounds": rounds}
    with opened(records) as bench:
        note(f"{records:,} records of about 120 bytes in {PARTITIONS} partitions")
        result["ratios"] = compare(bench, rounds)
        small = filled(bench.stack, bench.spark, bench.folder, 8_000 if given.quick else 30_000, bench.others)
        result["ratios"]["batch_of_1000_over_sparks_own"] = round(small.small_batches(1_000), 2)
        if given.memory:
            with PeakMemory(bench.others) as one:
                bench.fenced()
            five = filled(bench.stack, bench.spark, bench.folder, 5 * records, bench.others)
            with PeakMemory(bench.others) as five_times:
                five.fenced()
            result["ratios"]["peak_memory_at_5x"] = round(five_times.peak / one.peak, 2)
    if given.format == "json":
        print(json.dumps(result))
    else:
        for name, ratio in result["ratios"].items():
            print(f"{name:40} {ratio}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
