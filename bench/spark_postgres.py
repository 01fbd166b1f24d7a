"""Kafka through Spark into PostgreSQL: the fenced path against what a user would pick instead.

Every round runs each contender once over the same topic, in an order that rotates. A ratio is the median over the
rounds of (the other's time / the fenced time): more than 1 means that the fenced path is faster.

    python bench/spark_postgres.py [--quick] [--format json] [--records N] [--rounds N]
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
import psycopg
import pyarrow as pa
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.support.comparing import PARTITIONS, against, arguments, filled, interleaved, memory_at_5x, note, show, usual

from fencepost.engines.spark.batches import BatchCarrier
from fencepost.engines.spark.session import FIXED, open_session
from fencepost.engines.spark.source import KafkaSource
from fencepost.engines.spark.stream import BatchStream
from fencepost.engines.spark.transform import Transform, resolve
from fencepost.local import Stack
from fencepost.model import TopicPartition
from fencepost.sinks.postgres import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.binary_copy import Copier
from fencepost.sinks.postgres.columns import columns_for
from fencepost.sinks.postgres.connection import transaction
from fencepost.sinks.postgres.kind import KIND
from fencepost.spec import PipelineSpec

SQL = "SELECT offset AS id, CAST(value AS string) AS body{carried} FROM events"
CHECKPOINTS = "spark.sql.streaming.checkpointFileManagerClass"


@dataclass
class Bench:
    """One stack, one session, one topic."""

    stack: Stack
    spark: SparkSession
    topic: str
    records: int
    others: set[int]  # processes that are not the job's

    def over(self, topic: str, records: int) -> Bench:
        """The same over another topic."""
        return replace(self, topic=topic, records=records)

    def spec(self, table: str, provenance: bool = False) -> PipelineSpec:
        carried = ", _from" if provenance else ""
        return PipelineSpec.model_validate(
            {
                "name": f"{table}-{uuid4().hex[:8]}",
                "guarantee": "exactly-once",
                "kafka": {"bootstrap.servers": self.stack.bootstrap_servers},
                "source": {"topic": self.topic},
                "transform": {"sql": SQL.format(carried=carried)},
                "sink": {"format": "postgres", "options": {"table": table, "dsn": self.stack.dsn}},
            }
        )

    def transform(self, spec: PipelineSpec, batch: int | None = None) -> Transform:
        return resolve(self.spark, spec, KafkaSource(spec.source, spec.kafka, batch or spec.batch.records))

    def fresh_table(self, table: str, transform: Transform) -> PostgresSettings:
        columns = columns_for(transform.columns)
        with closing(psycopg.connect(self.stack.dsn, autocommit=True)) as database:
            database.execute(f"DROP TABLE IF EXISTS {table}")
            database.execute(f"CREATE TABLE {table} ({', '.join(f'{c.name} {c.type}' for c in columns)})")
            database.execute("CHECKPOINT")  # nobody pays for what the one before left behind
        return PostgresSettings(self.stack.dsn, table, table, columns)

    def count(self, table: str) -> int:
        with closing(psycopg.connect(self.stack.dsn)) as database:
            (count,) = database.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)
            return int(count)

    # -- the contenders, each over the whole topic: seconds from the query's start to its end

    def fenced(self, provenance: bool = False) -> float:
        return sum(self._fenced(self.spec("bench_fenced", provenance)))

    def _fenced(self, spec: PipelineSpec, batch: int | None = None) -> list[float]:
        transform = self.transform(spec, batch)
        settings = replace(self.fresh_table(spec.sink.options.name, transform), pipeline=spec.name)
        with closing(PostgresStore(settings)) as store:
            first = {TopicPartition(self.topic, number): 0 for number in range(PARTITIONS)}
            tenure = store.take_over(spec.name, uuid4(), first, {})
            marks: list[float] = []
            stream = BatchStream(
                BatchCarrier(self.spark, transform, spec.guarantee, KIND, settings, tenure),
                transform.source,
                lambda _: marks.append(perf_counter()),
            )
            marks.append(perf_counter())
            stream.carry(once=True, every="0 seconds")
            marks[-1] = perf_counter()  # the end of the query belongs to its last batch
        landed = self.count(spec.sink.options.name)
        assert landed == self.records, landed
        return [after - before for before, after in pairwise(marks)]

    def unfenced(self) -> float:
        """The same writer without ledger and fence: COPY and commit."""
        transform = self.transform(self.spec("bench_unfenced"))
        settings = self.fresh_table("bench_unfenced", transform)
        writer = UnfencedWriter(settings, transform)
        times = self._stream(transform, lambda rows: rows.mapInArrow(writer, "rows long").collect())  # type: ignore[arg-type]
        assert self.count("bench_unfenced") == self.records
        return sum(times)

    def counting(self) -> float:
        """Into nothing: what mapInArrow costs by itself."""
        seen: list[int] = []

        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = sum(batch.num_rows for batch in batches)
            yield pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})

        def add(rows: DataFrame) -> None:
            seen.extend(row.rows for row in rows.mapInArrow(count, "rows long").collect())  # type: ignore[arg-type]

        times = self._stream(self.transform(self.spec("bench_counting")), add)
        assert sum(seen) == self.records
        return sum(times)

    def jdbc(self, tuned: bool = False) -> float:
        """foreachBatch with Spark's JDBC append."""
        transform = self.transform(self.spec("bench_jdbc"))
        self.fresh_table("bench_jdbc", transform)
        where = conninfo_to_dict(self.stack.dsn)
        url = f"jdbc:postgresql://{where['host']}:{where['port']}/{where['dbname']}?sslmode=disable"
        properties = {"user": str(where["user"]), "driver": "org.postgresql.Driver", "password": _password(where)}
        if tuned:
            url += "&reWriteBatchedInserts=true"
            properties["batchsize"] = "10000"
        times = self._stream(transform, lambda rows: rows.write.jdbc(url, "bench_jdbc", "append", properties))
        assert self.count("bench_jdbc") == self.records
        return sum(times)

    def _stream(self, transform: Transform, write: Callable[[DataFrame], object], checkpoints: str = "") -> list[float]:
        """A plain stream with foreachBatch over the whole topic; the times of its batches."""
        first = {TopicPartition(self.topic, number): 0 for number in range(PARTITIONS)}
        marks: list[float] = []

        def batch(records: DataFrame, _number: int) -> None:
            write(transform.apply(records))
            marks.append(perf_counter())

        if checkpoints:
            self.spark.conf.set(CHECKPOINTS, checkpoints)
        with tempfile.TemporaryDirectory() as folder:
            stream = transform.source.stream(self.spark, first).writeStream.foreachBatch(batch)
            query = stream.option("checkpointLocation", Path(folder).as_uri()).trigger(availableNow=True)
            marks.append(perf_counter())
            query.start().awaitTermination()
            marks[-1] = perf_counter()
        self.spark.conf.set(CHECKPOINTS, FIXED[CHECKPOINTS])
        return [after - before for before, after in pairwise(marks)]

    def small_batches(self, size: int) -> float:
        """The time of a batch of so many rows, fenced, over that of an empty foreachBatch with Spark's default."""
        default = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
        spec = self.spec("bench_small")
        fenced = self._fenced(spec, size)
        empty = self._stream(self.transform(spec, size), lambda _: None, default)
        return usual(fenced) / usual(empty)


@dataclass
class UnfencedWriter:
    settings: PostgresSettings
    transform: Transform

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings}

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with closing(PostgresStore(self.settings)) as store, transaction(store.connection()) as connection:
            copier = Copier(connection, self.settings.table, self.settings.columns)
            rows = 0
            for batch in batches:
                if batch.num_rows:
                    copier.send(batch)
                    rows += batch.num_rows
            copier.settle()
        yield pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})


def _password(where: dict[str, Any]) -> str:
    return Path(str(where["passfile"])).read_text().strip().rsplit(":", 1)[1]


def compare(bench: Bench, rounds: int) -> dict[str, float]:
    contenders: dict[str, Callable[[], float]] = {
        "fenced": bench.fenced,
        "jdbc_append": bench.jdbc,
        "jdbc_tuned": lambda: bench.jdbc(tuned=True),
        "counting_only": bench.counting,
        "unfenced": bench.unfenced,
        "with_provenance": lambda: bench.fenced(provenance=True),
    }
    return against(interleaved(contenders, rounds), "fenced")


@contextmanager
def opened(records: int) -> Iterator[Bench]:
    with Stack.temporary() as stack:
        others = {process.pid for process in psutil.Process().children()}
        with open_session("bench", {"spark.master": "local[2]"}) as spark:
            yield Bench(stack, spark, filled(stack, records), records, others)


def main() -> None:
    given = arguments(__doc__, "20,000 records, two rounds", memory=True).parse_args()
    records, rounds, few = (20_000, 2, 4_000) if given.quick else (given.records, given.rounds, 30_000)
    result: dict[str, Any] = {"records": records, "rounds": rounds}
    with opened(records) as bench:
        note(f"{records:,} records of about 120 bytes in {PARTITIONS} partitions")
        ratios = compare(bench, rounds)
        small = bench.over(filled(bench.stack, few), few)
        ratios["batch_of_1000_over_empty_foreachBatch"] = round(small.small_batches(1_000), 2)
        if given.memory:
            five = bench.over(filled(bench.stack, 5 * records), 5 * records)
            ratios["peak_memory_at_5x"] = memory_at_5x(bench.others, bench.fenced, five.fenced)
        result["ratios"] = ratios
    show(result, given.format)


if __name__ == "__main__":
    main()
