"""How cost grows: with partitions, with the size of records, with the ledger's history, with pipelines in one database.

Each run drains a topic into PostgreSQL, exactly once, in a process of its own. `--write` puts the tables and plots into
docs/performance.md. Ratios are of one run:

    partitions_<engine>_<n>_over_1     the time of a batch; with engine: python a batch is of one partition
    sizes_<engine>_<n>_over_100        bytes a second, with records of n bytes
    history_python_<n>_over_1          the time of a batch, where the pipeline's ledger has n spans already
    pipelines_python_<n>_over_1        records a second of n pipelines at once, each with a topic of its own

    python bench/scale.py [--quick] [--format json] [--records N] [--without-spark] [--write]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.support.comparing import arguments, filled, note, show
from bench.support.figures import Figure, write
from bench.support.measured import Run, measure, started

from fencepost.local import Stack

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
PARTITIONS = (1, 10, 100, 1000)
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
SPANS = (1, 10_000, 100_000, 1_000_000)
PIPELINES = (1, 2, 5, 10)
BYTES = 100_000_000  # of all records together, where their size grows
HISTORY = """
INSERT INTO fencepost.spans (pipeline, topic, partition, start_offset, end_offset, owner, rows, dead)
SELECT %(name)s, %(topic)s, number %% %(partitions)s, -number, 1 - number, pg_catalog.gen_random_uuid(), 1, 0
FROM pg_catalog.generate_series(1, %(spans)s) AS number
"""
Found = dict[str, dict[float, Run]]  # by engine, then by what grows
Value = Callable[[float, Run], float]  # what is drawn


@dataclass
class Bench:
    """One stack; each run has a topic, a table and a pipeline of its own."""

    stack: Stack
    records: int
    engines: tuple[str, ...]

    def declare(self, topic: str, engine: str = "python", records: int = 500_000) -> dict[str, Any]:
        name = f"bench_{uuid4().hex[:8]}"
        spark = {"spark": {"spark.master": "local[2]"}} if engine == "spark" else {}
        return {
            "name": name,
            "guarantee": "exactly-once",
            "engine": engine,
            "kafka": {"bootstrap.servers": self.stack.bootstrap_servers},
            "source": {"topic": topic},
            "sink": {"format": "postgres", "options": {"dsn": self.stack.dsn, "table": name}},
            "batch": {"records": records, "every": "0s"},
            **spark,
        }

    def run(self, spec: Mapping[str, Any], records: int) -> Run:
        found = measure(spec)
        assert found.rows == records, found
        return found

    # -- what grows

    def partitions(self, numbers: tuple[int, ...]) -> Found:
        found: Found = {engine: {} for engine in self.engines}
        for number in numbers:
            topic = filled(self.stack, self.records, number)
            for engine in self.engines:
                found[engine][number] = self.run(self.declare(topic, engine, self.records // 4), self.records)
                note(f"{number} partitions, {engine}: {_told(found[engine][number])}")
        return found

    def sizes(self, sizes: tuple[int, ...], total: int) -> Found:
        found: Found = {engine: {} for engine in self.engines}
        for size in sizes:
            records = max(total // size, 10)
            topic = filled(self.stack, records, size=size)
            for engine in self.engines:
                found[engine][size] = self.run(self.declare(topic, engine), records)
                note(f"{size} bytes, {engine}: {_told(found[engine][size])}")
        return found

    def history(self, numbers: tuple[int, ...]) -> Found:
        """Two runs each: the first makes the ledger, then there is a past, and the second one is measured."""
        found: dict[float, Run] = {}
        for number in numbers:
            topic = filled(self.stack, self.records)
            spec = self.declare(topic, records=self.records // 40)
            self.run(spec, self.records)
            self._remember(spec["name"], topic, number)
            filled(self.stack, self.records, topic=topic)
            found[number] = self.run(spec, self.records)
            note(f"{number} spans: {_told(found[number])}")
        return {"python": found}

    def _remember(self, name: str, topic: str, spans: int) -> None:
        with closing(psycopg.connect(self.stack.dsn, autocommit=True)) as database:
            values = {"name": name, "topic": topic, "partitions": 4, "spans": spans}
            database.execute(HISTORY, values)
            database.execute("VACUUM ANALYZE fencepost.spans")

    def pipelines(self, numbers: tuple[int, ...]) -> Found:
        """Each over a topic of its own; the figures of all together."""
        topics = [filled(self.stack, self.records) for _ in range(max(numbers))]
        found: dict[float, Run] = {}
        for number in numbers:
            with ExitStack() as opened:
                runs = [opened.enter_context(started(self.declare(topic))) for topic in topics[:number]]
                each = [one.result() for one in runs]
            assert all(one.rows == self.records for one in each), each
            found[number] = _together(each)
            note(f"{number} pipelines: {_told(found[number])}")
        return {"python": found}


def _together(runs: list[Run]) -> Run:
    add = {name: sum(getattr(run, name) for run in runs) for name in ("rows", "batches", "threads", "connections")}
    first, last = min(run.began for run in runs), max(run.began + run.seconds for run in runs)
    slowest = max(run.batch_ms for run in runs)
    return Run(seconds=last - first, batch_ms=slowest, memory=sum(run.memory for run in runs), began=first, **add)


def _told(run: Run) -> str:
    return (
        f"{run.rows / run.seconds:,.0f} records/s, {run.batches} batches of {run.batch_ms:.1f} ms, {run.threads} "
        f"threads, {run.connections} connections, {run.memory >> 20} MiB"
    )


# -- what is told


def figure(name: str, title: str, across: str, up: str, found: Found, value: Value) -> Figure:
    header = [across, "engine", up, "records/s", "batches", "connections", "threads", "MiB"]
    rows = [
        [f"{at:,.0f}", engine, f"{value(at, run):,.1f}", *_cells(run)]
        for engine, runs in found.items()
        for at, run in runs.items()
    ]
    curves = {engine: {at: value(at, run) for at, run in runs.items()} for engine, runs in found.items()}
    return Figure(name, title, across, up, curves, header, rows)


def _cells(run: Run) -> list[str]:
    held = (run.connections, run.threads, run.memory >> 20)
    return [f"{run.rows / run.seconds:,.0f}", f"{run.batches}", *map(str, held)]


def _batch_ms(_at: float, run: Run) -> float:
    return run.batch_ms


def _megabytes(size: float, run: Run) -> float:
    return run.rows * size / run.seconds / 1e6


def _thousands(_at: float, run: Run) -> float:
    return run.rows / run.seconds / 1000


def figures(bench: Bench, quick: bool) -> list[Figure]:
    """The larger half is left out where it must be quick."""
    few = 2 if quick else None
    sizes, total = SIZES[:few], BYTES // (20 if quick else 1)
    return [
        figure(
            "partitions",
            "A batch as partitions grow",
            "partitions",
            "ms a batch",
            bench.partitions(PARTITIONS[:few]),
            _batch_ms,
        ),
        figure("sizes", "Speed as records grow", "bytes of a record", "MB/s", bench.sizes(sizes, total), _megabytes),
        figure(
            "history",
            "A batch as the history of its pipeline grows",
            "spans of before",
            "ms a batch",
            bench.history(SPANS[:few]),
            _batch_ms,
        ),
        figure(
            "pipelines",
            "Speed of all pipelines on one database",
            "pipelines",
            "thousand records/s",
            bench.pipelines(PIPELINES[:few]),
            _thousands,
        ),
    ]


def ratios(drawn: list[Figure]) -> dict[str, float]:
    """Each point over the first of its curve."""
    found: dict[str, float] = {}
    for one in drawn:
        for engine, curve in one.curves.items():
            (first, base), *others = curve.items()
            found |= {f"{one.name}_{engine}_{at:.0f}_over_{first:.0f}": round(y / base, 3) for at, y in others}
    return found


def main() -> None:
    parser = arguments(__doc__, "20,000 records, the smaller half of each", records=200_000)
    parser.add_argument("--without-spark", action="store_true")
    parser.add_argument("--write", action="store_true", help="into docs/performance.md")
    given = parser.parse_args()
    records = 20_000 if given.quick else given.records
    engines = ("python",) if given.without_spark else ("python", "spark")
    with Stack.temporary() as stack:
        drawn = figures(Bench(stack, records, engines), given.quick)
    if given.write:
        write(PAGE, drawn)
    tables = {one.name: {"header": one.header, "rows": one.rows} for one in drawn}
    show({"records": records, "ratios": ratios(drawn), "tables": tables}, given.format)
    for one in drawn if given.format == "text" else ():
        print(f"\n{one.title}\n\n{one.table()}")


if __name__ == "__main__":
    main()
