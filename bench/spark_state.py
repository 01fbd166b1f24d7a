"""A windowed count from Kafka through Spark into PostgreSQL, against the usual upsert; and what a takeover costs.

The recipe is what Spark's users write: foreachBatch, JDBC into a staging table, INSERT ... ON CONFLICT. Every round
runs each contender once over the same topic, with the same query and session, in an order that rotates. `recipe` is the
median over the rounds of (its time / ours): more than 1 means that ours is faster. `copied_over_linked_...`: how much
longer a takeover takes on a file system without hard links; `takeover_seconds` has both.

    python bench/spark_state.py [--quick] [--format json] [--records N] [--rounds N]
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import DataFrame

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.spark_postgres import Bench, _password, opened
from bench.support.comparing import PARTITIONS, against, arguments, interleaved, note, show, usual

from fencepost.engines.spark.source import KafkaSource
from fencepost.engines.spark.stateful import folders
from fencepost.engines.spark.stateful.carrying import StateCarrier, StateStream
from fencepost.engines.spark.stateful.checkpoint import Checkpoint
from fencepost.engines.spark.stateful.rows import StreamRows, resolve_stream
from fencepost.engines.spark.stateful.takeover import judge_of, own_checkpoint
from fencepost.model import StreamBatch, TopicPartition
from fencepost.sinks.postgres.kind import KIND
from fencepost.spec import PipelineSpec

KEYS = 5_000
SQL = (
    "SELECT window.start AS start, k, count(*) AS n FROM (SELECT timestamp, offset % {keys} AS k FROM events) "
    "GROUP BY window(timestamp, '1 hour'), k"
)
CONFLICT = (
    "INSERT INTO {table} SELECT start, k, n FROM {table}_new "
    "ON CONFLICT (start, k) DO UPDATE SET n = excluded.n; TRUNCATE {table}_new"
)
BATCHES = 4  # of a run


@dataclass
class State:
    """The contenders: seconds over the whole topic."""

    bench: Bench
    folder: Path

    def ours(self) -> float:
        spec = self._spec()
        rows = self._rows(spec)
        target = KIND.prepare(spec.job, rows.columns)
        with closing(target.open()) as store:
            tenure = store.take_over(spec.name, uuid4(), self._first(), {})
            own = own_checkpoint(judge_of(spec, store), tenure)
        carrier = StateCarrier(
            self.bench.spark, rows, spec.guarantee, KIND, target, tenure, own=own, keeps=rows.keeps, source=rows.source
        )
        stream = StateStream(
            carrier,
            rows.source,
            report=lambda _: None,
            transform=rows.of_stream,
            output_mode=spec.output_mode,
        )
        begun = perf_counter()
        stream.carry(once=True, every="0 seconds")
        took = perf_counter() - begun
        self._require_counted(spec.sink.options.name)
        return took

    def recipe(self) -> float:
        spec = self._spec()
        rows, table = self._rows(spec), spec.sink.options.name
        where = conninfo_to_dict(self.bench.stack.dsn)
        url = f"jdbc:postgresql://{where['host']}:{where['port']}/{where['dbname']}?sslmode=disable"
        properties = {"user": str(where["user"]), "driver": "org.postgresql.Driver", "password": _password(where)}
        columns = "(start timestamptz, k bigint, n bigint"
        with closing(psycopg.connect(self.bench.stack.dsn, autocommit=True)) as database:
            database.execute(f"CREATE TABLE {table} {columns}, PRIMARY KEY (start, k))")
            database.execute(f"CREATE UNLOGGED TABLE {table}_new {columns})")

            def upsert(batch: DataFrame, _number: int) -> None:
                batch.write.jdbc(url, f"{table}_new", "append", properties)
                database.execute(CONFLICT.format(table=table))

            stream = rows.of_stream(rows.source.stream(self.bench.spark, self._first())).writeStream.foreachBatch(
                upsert
            )
            checkpoint = (self.folder / table).as_uri()
            query = stream.outputMode("update").option("checkpointLocation", checkpoint).trigger(availableNow=True)
            begun = perf_counter()
            query.start().awaitTermination()
            took = perf_counter() - begun
        self._require_counted(table)
        return took

    def _spec(self) -> PipelineSpec:
        table = f"bench_{uuid4().hex[:8]}"
        options = {"table": table, "dsn": self.bench.stack.dsn, "mode": "upsert", "key": ["start", "k"]}
        return PipelineSpec.model_validate(
            {
                "name": table,
                "guarantee": "exactly-once",
                "kafka": {"bootstrap.servers": self.bench.stack.bootstrap_servers},
                "source": {"topic": self.bench.topic},
                "checkpoint": str(self.folder / "ours"),
                "transform": {"sql": SQL.format(keys=KEYS), "output_mode": "update"},
                "sink": {"format": "postgres", "options": options},
                "batch": {"records": self.bench.records // BATCHES},
            }
        )

    def _rows(self, spec: PipelineSpec) -> StreamRows:
        return resolve_stream(self.bench.spark, spec, KafkaSource(spec.source, spec.kafka, spec.batch.records))

    def _first(self) -> dict[TopicPartition, int]:
        return {TopicPartition(self.bench.topic, number): 0 for number in range(PARTITIONS)}

    def _require_counted(self, table: str) -> None:
        with closing(psycopg.connect(self.bench.stack.dsn)) as database:
            (counted,) = database.execute(f"SELECT sum(n)::bigint FROM {table}").fetchone() or (0,)
        assert counted == self.bench.records, counted


def takeovers(folder: Path, megabytes: int, rounds: int) -> tuple[float, float]:
    """Linked and copied."""
    linked, copied = (takeover(folder, megabytes, rounds, links=links) for links in (True, False))
    note(f"a takeover with {megabytes:,} MB of state: {linked:.3f} s by links, {copied:.3f} s by copies")
    return linked, copied


def takeover(folder: Path, megabytes: int, rounds: int, *, links: bool) -> float:
    """Seconds to fork a checkpoint with so much state, in files of 4 MB at most."""
    last = StreamBatch("query", 50, '[{"topic":{"0":1}}]', 0, 0, "old")
    old = folder / f"old-{megabytes}"
    if not old.exists():
        _fill(old, megabytes)
    times = []
    for number in range(rounds):
        new = folder / f"new-{number}"
        with patch("os.link", os.link if links else _no_links):
            begun = perf_counter()
            folders.fork(Checkpoint(old), new, last, {})
            times.append(perf_counter() - begun)
        shutil.rmtree(new)
    return round(usual(times), 3)


def _fill(folder: Path, megabytes: int) -> None:
    files = max(megabytes // 4, 4)
    for number in range(files):
        part = folder / "state" / "0" / str(number % 4)
        part.mkdir(parents=True, exist_ok=True)
        (part / f"{number // 4 + 1}.delta").write_bytes(os.urandom((megabytes << 20) // files))
    for log in ("offsets", "commits"):
        (folder / log).mkdir()
        for number in range(51):
            (folder / log / str(number)).write_text("v1\n{}\n{}")
    (folder / "metadata").write_text('{"id":"query"}')


def _no_links(*_: object) -> None:
    raise OSError("no links here")


def main() -> None:
    given = arguments(__doc__, "40,000 records, two rounds, no GB").parse_args()
    records, rounds, sizes = (40_000, 2, [10]) if given.quick else (given.records, given.rounds, [10, 1000])
    result: dict[str, Any] = {"records": records, "rounds": rounds}
    with tempfile.TemporaryDirectory() as folder:
        with opened(records) as bench:
            note(f"{records:,} records, {BATCHES} batches, {KEYS:,} keys")
            state = State(bench, Path(folder))
            contenders: dict[str, Callable[[], float]] = {"ours": state.ours, "recipe": state.recipe}
            ratios = against(interleaved(contenders, rounds), "ours")
        result["takeover_seconds"] = {size: takeovers(Path(folder), size, rounds) for size in sizes}
        for size, (linked, copied) in result["takeover_seconds"].items():
            ratios[f"copied_over_linked_{size}_mb"] = round(copied / linked, 1)
        result["ratios"] = ratios
    show(result, given.format)


if __name__ == "__main__":
    main()
