"""The audit against what a user would write instead: a left anti join on Spark and one on DuckDB, over one Parquet.

The rows are generated, with holes in the offsets as transactions leave them; one row is lost, one is doubled. An anti
join finds the lost one only. A ratio is the median over the rounds of (the other's time / ours): more than 1
means that ours is faster. `growth_*` is our time per row at that size over the time per row at the smallest.

    python bench/audit.py [--quick] [--format json] [--rows N] [--rounds N] [--kafka N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import psutil
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.support.comparing import interleaved, note, ratio, show

from fencepost.audit.audit import audit_with
from fencepost.audit.engines.duckdb import DuckEngine, open_duck
from fencepost.audit.engines.engine import Engine
from fencepost.audit.engines.relations import PythonLoader, put_nothing_dead, put_ranges, zoned
from fencepost.audit.engines.spark import SparkEngine, SparkLoader
from fencepost.audit.log_to_sink import compare_sides
from fencepost.audit.question import PLACES, Question, Ranges
from fencepost.audit.request import AuditRequest, sink_named
from fencepost.audit.scope import find_scope
from fencepost.engines.spark.session import open_session
from fencepost.guarantee import Anomaly, Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack
from fencepost.model import Span, TopicPartition
from fencepost.producing.sending import Event, send

PARTITIONS = 4
KEYS = ["topic", "part", "pos"]
EXPECTED = {Anomaly.LOST_BEFORE_SINK: 1, Anomaly.DOUBLED_IN_SINK: 1}


class Rows:
    """A log and a sink of so many rows, as Parquet."""

    def __init__(self, spark: SparkSession, folder: Path, count: int) -> None:
        self.count = count
        self.log, self.sink = str(folder / f"log-{count}"), str(folder / f"sink-{count}")
        log = spark.range(count, numPartitions=8).selectExpr(
            "'orders' AS topic",
            f"CAST(id % {PARTITIONS} AS INT) AS part",
            f"(id DIV {PARTITIONS}) * 101 DIV 100 AS pos",  # a marker for every hundred events
        )
        log.write.mode("overwrite").parquet(self.log)
        rows = spark.read.parquet(self.log).selectExpr(*KEYS, "0 AS n")
        last = count // PARTITIONS // 2 * 101 // 100
        rows.where(f"NOT (part = 1 AND pos = {last})").unionByName(
            rows.where(f"part = 2 AND pos = {last}")
        ).repartition(8).write.mode("overwrite").parquet(self.sink)

    @property
    def ranges(self) -> Ranges:
        return {TopicPartition("orders", part): Span(0, self.count) for part in range(PARTITIONS)}


def ours(engine: Engine, rows: Rows, read: Callable[[str], str]) -> float:
    started = perf_counter()
    engine.view("log", f"SELECT *, CAST(NULL AS STRING) AS id FROM {read(rows.log)}")
    engine.view("landed", f"SELECT *, CAST(NULL AS STRING) AS id FROM {read(rows.sink)}")
    engine.view("expected", "SELECT * FROM log")
    put_ranges(engine, rows.ranges)
    put_nothing_dead(engine)
    engine.view("sink", zoned("landed"))
    hop = compare_sides(engine, Question(PLACES, lambda _ranges: None, nothing_is_filtered=True))
    took = perf_counter() - started
    assert {code: count for code, count in hop.totals.items() if count} == EXPECTED, hop.totals
    return took


def spark_anti_join(engine: SparkEngine, rows: Rows) -> float:
    started = perf_counter()
    log, sink = engine.spark.read.parquet(rows.log), engine.spark.read.parquet(rows.sink)
    assert log.join(sink, KEYS, "left_anti").count() == 1
    return perf_counter() - started


def duck_anti_join(engine: DuckEngine, rows: Rows) -> float:
    started = perf_counter()
    found = engine.rows(
        f"SELECT count(*) AS lost FROM {in_duck(rows.log)} l ANTI JOIN {in_duck(rows.sink)} s USING (topic, part, pos)"
    )
    assert found[0]["lost"] == 1
    return perf_counter() - started


def in_duck(path: str) -> str:
    return f"read_parquet('{path}/*.parquet')"


def in_spark(path: str) -> str:
    return f"parquet.`{path}`"


def resident() -> int:
    """Of this process and everything that it started."""
    own = psutil.Process()
    return sum(process.memory_info().rss for process in (own, *own.children(recursive=True)))


def growth(spark: SparkEngine, folder: Path, sizes: list[int], rounds: int) -> dict[str, float]:
    found: dict[str, float] = {}
    per_row: dict[int, float] = {}
    memory: dict[int, int] = {}
    for size in sizes:
        rows = Rows(spark.spark, folder, size)
        took = [ours(spark, rows, in_spark) for _ in range(rounds + 1)][1:]
        per_row[size], memory[size] = statistics.median(took) / size, resident()
        note(f"{size:,} rows: {statistics.median(took):.2f} s, {memory[size] >> 20:,} MiB resident")
        found[f"growth_{size // 1000}k"] = round(per_row[size] / per_row[sizes[0]], 2)
        found[f"memory_{size // 1000}k"] = round(memory[size] / memory[sizes[0]], 2)
    return found


def through_kafka(spark: SparkEngine, records: int, rounds: int) -> dict[str, float]:
    """Topic against topic, by ids in the values: the engine for small topics against Spark."""
    with Stack.temporary() as stack:
        kafka = {"bootstrap.servers": stack.bootstrap_servers}
        names = [f"bench-{uuid4().hex[:8]}" for _ in range(2)]
        for name in names:
            create_topic(Cluster(kafka), TopicRequest(name, PARTITIONS))
            sent = send(
                kafka, name, (Event(f"{number:0100d}".encode(), id=f"event-{number}") for number in range(records))
            )
            assert sent.all_acked, sent
        request = AuditRequest(Guarantee.EXACTLY_ONCE, kafka, names[0], sink_named(f"topic:{names[1]}", str))

        def python() -> float:
            with open_duck() as duck:
                return timed(PythonLoader(duck, kafka, payload=False))

        def timed(loader: PythonLoader | SparkLoader) -> float:
            started = perf_counter()
            found = audit_with(request, find_scope(request), loader)
            assert found.hops[-1].landed == records, found
            assert not found.totals, found.totals
            return perf_counter() - started

        times = interleaved({"python": python, "spark": lambda: timed(SparkLoader(spark, kafka, headers=True))}, rounds)
        note(
            f"{records:,} records through Kafka: "
            + ", ".join(f"{n} {statistics.median(t):.1f} s" for n, t in times.items())
        )
        return {"kafka_spark_over_python": ratio(times, "spark", "python")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200,000 rows, two rounds, no Kafka")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000_000, 10_000_000, 50_000_000])
    parser.add_argument("--kafka", type=int, default=1_000_000, help="records through Kafka; 0 for none")
    given = parser.parse_args()
    rows, rounds, sizes, kafka = given.rows, given.rounds, given.sizes, given.kafka
    if given.quick:
        rows, rounds, sizes, kafka = 200_000, 2, [100_000, 200_000], 0
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="fencepost-bench-")))
        spark = SparkEngine(opened.enter_context(open_session("bench", {"spark.master": "local[2]"})))
        duck = opened.enter_context(open_duck())
        data = Rows(spark.spark, folder, rows)
        times = interleaved(
            {
                "ours_spark": lambda: ours(spark, data, in_spark),
                "spark_anti_join": lambda: spark_anti_join(spark, data),
                "ours_duckdb": lambda: ours(duck, data, in_duck),
                "duckdb_anti_join": lambda: duck_anti_join(duck, data),
            },
            rounds,
        )
        ratios = {
            "spark_anti_join": ratio(times, "spark_anti_join", "ours_spark"),
            "duckdb_anti_join": ratio(times, "duckdb_anti_join", "ours_duckdb"),
            "duckdb_anti_join_against_ours_on_spark": ratio(times, "duckdb_anti_join", "ours_spark"),
            **growth(spark, folder, sizes, 2 if given.quick else 3),
        }
        if kafka:
            ratios |= through_kafka(spark, kafka, 2)
    result: dict[str, Any] = {"rows": rows, "rounds": rounds, "ratios": ratios}
    show(result, given.format)


if __name__ == "__main__":
    main()
