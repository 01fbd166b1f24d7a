"""Kafka through Spark into Delta and Iceberg tables: the fenced path against Spark's own streaming sinks.

Every round runs each contender once over the same topic, in an order that rotates, each with the same source settings
and the same rows. A ratio is the median over the rounds of (the other's time / the fenced time): more than 1 means that
the fenced path is faster. `*_batch_of_1000` is the other way round: our batch over that of the format's own sink.

    python bench/spark_lake.py [--quick] [--format json] [--records N] [--rounds N] [--memory] [--only delta|iceberg]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import psutil
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.support.comparing import PARTITIONS, against, arguments, filled, interleaved, memory_at_5x, note, show, usual

from fencepost.engines.spark.batches import BatchCarrier
from fencepost.engines.spark.session import session_for
from fencepost.engines.spark.source import KafkaSource
from fencepost.engines.spark.stream import BatchStream
from fencepost.engines.spark.transform import Transform, resolve
from fencepost.local import Stack
from fencepost.model import TopicPartition
from fencepost.spec import PipelineSpec

SQL = "SELECT offset AS id, CAST(value AS string) AS body, _from FROM events"
FORMATS = ("delta", "iceberg")
# columns of every row that say where it came from, as the tables have them
PLACES = {"delta": "_partition", "iceberg": "_partition AS _kafka_partition", "parquet": "_partition"}


@dataclass
class Bench:
    """One stack, one session, one topic, one folder for the tables of one format."""

    stack: Stack
    spark: SparkSession
    folder: Path
    form: str
    topic: str
    records: int

    def transform(self, spec: PipelineSpec, batch: int | None = None) -> Transform:
        return resolve(self.spark, spec, KafkaSource(spec.source, spec.kafka, batch or spec.batch.records))

    def over(self, topic: str, records: int) -> Bench:
        """The same over another topic."""
        return Bench(self.stack, self.spark, self.folder, self.form, topic, records)

    @property
    def first(self) -> dict[TopicPartition, int]:
        return {TopicPartition(self.topic, number): 0 for number in range(PARTITIONS)}

    @contextmanager
    def place(self) -> Iterator[Path]:
        path = self.folder / f"t{uuid4().hex}"
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    # -- the contenders, each over the whole topic: seconds from the query's start to its end

    def fenced(self) -> float:
        return sum(self.fenced_batches())

    def fenced_batches(self, batch: int | None = None) -> list[float]:
        with self.place() as path:
            spec = spec_of(self.stack, self.topic, self.form, path)
            transform = self.transform(spec, batch)
            kind = spec.sink.kind
            target = kind.prepare(spec.job, transform.columns)
            tenure = target.open().take_over(spec.name, uuid4(), self.first, {})
            marks: list[float] = []
            stream = BatchStream(
                BatchCarrier(self.spark, transform, spec.guarantee, kind, target, tenure),
                transform.source,
                lambda _: marks.append(perf_counter()),
            )
            marks.append(perf_counter())
            stream.carry(once=True, every="0 seconds")
            marks[-1] = perf_counter()  # the end of the query belongs to its last batch
            self._require(self.form, path)
        return [after - before for before, after in pairwise(marks)]

    def native(self, form: str) -> float:
        return self._native(form, None)[0]

    def _native(self, form: str, batch: int | None) -> tuple[float, list[float]]:
        """Spark's own streaming sink of that format, with its checkpoint; the whole time, and that of its batches."""
        with self.place() as path, tempfile.TemporaryDirectory() as checkpoint:
            spec = spec_of(self.stack, self.topic, self.form, path)
            transform = self.transform(spec, batch)
            rows = self.rows(transform, transform.source.stream(self.spark, self.first), form)
            writer = rows.writeStream.format(form).option("checkpointLocation", Path(checkpoint).as_uri())
            writer = writer.trigger(availableNow=True)
            if form == "iceberg":
                spec.sink.kind.prepare(spec.job, transform.columns)
            began = perf_counter()
            query = writer.toTable(name_of(path)) if form == "iceberg" else writer.start(str(path))
            query.awaitTermination()
            took = perf_counter() - began
            self._require(form, path)
            times = [one["durationMs"]["triggerExecution"] / 1000 for one in query.recentProgress]
        return took, times

    def rows(self, transform: Transform, records: DataFrame, form: str) -> DataFrame:
        """The same columns as ours."""
        made = transform.for_stage(transform.made(records))
        return made.selectExpr("id", "body", "_topic", PLACES[form], "_offset", "0 AS _n")

    def _require(self, form: str, path: Path) -> None:
        table = self.spark.table(name_of(path)) if form == "iceberg" else self.spark.read.format(form).load(str(path))
        landed = table.count()
        assert landed == self.records, landed

    def small_batches(self, size: int) -> float:
        ours, theirs = usual(self.fenced_batches(size)), usual(self._native(self.form, size)[1])
        note(f"a batch of {size:,}: fenced {ours:.3f} s, the format's own sink {theirs:.3f} s")
        return round(ours / theirs, 2)


def name_of(path: Path) -> str:
    """Of an Iceberg table in its catalog."""
    return f"lake.bench.{path.name}"


def spec_of(stack: Stack, topic: str, form: str, path: Path) -> PipelineSpec:
    options: dict[str, Any] = {"path": str(path)}
    if form == "iceberg":
        table = name_of(path).removeprefix("lake.")
        options = {"table": table, "warehouse": str(path.parent / "warehouse"), "dsn": stack.dsn}
    return PipelineSpec.model_validate(
        {
            "name": f"bench-{uuid4().hex[:8]}",
            "guarantee": "exactly-once",
            "kafka": {"bootstrap.servers": stack.bootstrap_servers},
            "source": {"topic": topic},
            "transform": {"sql": SQL},
            "sink": {"format": form, "options": options},
            "spark": {"spark.master": "local[2]", "spark.sql.streaming.numRecentProgressUpdates": "100"},
        }
    )


def measured(stack: Stack, form: str, topics: dict[int, str], given: tuple[int, int, int]) -> dict[str, float]:
    """The ratios of one format. `given`: the rounds, the records of a run, and of one in batches of 1,000.

    Five times as many records tell how the memory grows, where there is a topic of so many.
    """
    rounds, records, few = given
    with tempfile.TemporaryDirectory() as folder:
        others = {process.pid for process in psutil.Process().children()}
        with session_for(spec_of(stack, "none", form, Path(folder) / "none")) as spark:
            bench = Bench(stack, spark, Path(folder), form, topics[records], records)
            names = {"fenced": form, f"sparks_own_{form}_sink": form, f"{form}_sparks_own_parquet_sink": "parquet"}
            contenders = {name: partial(bench.native, other) for name, other in names.items() if name != "fenced"}
            ratios = against(interleaved({"fenced": bench.fenced, **contenders}, rounds), "fenced")
            ratios[f"{form}_batch_of_1000_over_sparks_own"] = bench.over(topics[few], few).small_batches(1_000)
            if topic := topics.get(5 * records):
                five = bench.over(topic, 5 * records)
                ratios[f"{form}_peak_memory_at_5x"] = memory_at_5x(others, bench.fenced, five.fenced)
    return ratios


def main() -> None:
    parser = arguments(__doc__, "20,000 records, two rounds", memory=True)
    parser.add_argument("--only", choices=FORMATS, help="one of the formats")
    given = parser.parse_args()
    records, rounds, few = (20_000, 2, 8_000) if given.quick else (given.records, given.rounds, 30_000)
    result: dict[str, Any] = {"records": records, "rounds": rounds, "ratios": {}}
    with Stack.temporary() as stack:
        sizes = {records, few} | ({5 * records} if given.memory else set())
        topics = {size: filled(stack, size) for size in sizes}
        note(f"{records:,} records of about 120 bytes in {PARTITIONS} partitions")
        for form in [given.only] if given.only else FORMATS:
            result["ratios"] |= measured(stack, form, topics, (rounds, records, few))
    show(result, given.format)


if __name__ == "__main__":
    main()
