"""One table with its ledger, the writer processes that are let loose on it, and what they leave there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import psycopg
import pytest

from fencepost.audit.compare import Comparison, compare_sink
from fencepost.guarantee import Guarantee
from fencepost.lab.crash import CrashAction, CrashPoint, MidCopy, visits
from fencepost.machine import process
from fencepost.model import Merge, Step
from fencepost.sinks.postgres import PostgresSettings
from fencepost.sinks.postgres.columns import Column
from sweep.work import EVENTS, ORDERS, SPAN, Naive, Work

TESTS = Path(__file__).parents[1]
EXACTLY_ONCE_IN_THE_GATE = [
    Guarantee.EXACTLY_ONCE,
    pytest.param(Guarantee.AT_LEAST_ONCE, marks=pytest.mark.proof),
    pytest.param(Guarantee.AT_MOST_ONCE, marks=pytest.mark.proof),
]
PATIENCE = 20.0  # seconds for what takes a fraction of one; less than the writers' own lock_timeout


class Point(StrEnum):
    """The places where a process dies or stalls, each in the middle of the work: in its second span."""

    BEFORE_THE_FIRST_ROW = "started"
    IN_MID_COPY = "mid-copy"
    AFTER_THE_WRITE = "written"
    AFTER_THE_ADVANCE = "advanced"  # exactly-once: between compare-and-set and COMMIT
    AFTER_THE_COMMIT = "delivered"


PROVENANCE = (
    Column("_topic", "text"),
    Column("_partition", "integer"),
    Column("_offset", "bigint"),
    Column("_n", "integer"),
)
NOTHING, LOST, DOUBLED = (0, 0), (SPAN, 0), (0, SPAN)
AMISS = {  # what the order of the steps gives away at these points; at all others: nothing
    (Guarantee.AT_LEAST_ONCE, Point.AFTER_THE_WRITE): DOUBLED,
    (Guarantee.AT_MOST_ONCE, Point.AFTER_THE_ADVANCE): LOST,
    (Guarantee.AT_MOST_ONCE, Point.IN_MID_COPY): LOST,
}


@dataclass(frozen=True)
class Ended:
    """How a process ended and what it said on the way."""

    code: int
    said: list[dict[str, str]]
    errors: str

    @property
    def troubles(self) -> list[str]:
        return [line["trouble"] for line in self.said if "trouble" in line]


class Arena:
    """Use it in a `with` block: its processes end with it."""

    def __init__(self, dsn: str, folder: Path, merge: Merge | None = None) -> None:
        self.dsn = dsn
        self.witness = folder / "witness"
        name = f"sweep_{uuid4().hex[:12]}"
        columns = (Column("id", "bigint"), *(PROVENANCE if merge else ()))
        self.settings = PostgresSettings(dsn, name, name, columns, schema=f"{name}_own", merge=merge)
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        table = self.settings.table
        columns = ", ".join(f"{column.name} {column.type}" for column in self.settings.columns)
        self.sql(f"CREATE TABLE {table} ({columns}{', PRIMARY KEY (id)' if self.settings.merge else ''})")
        self.sql(f"CREATE TABLE {table}_position AS SELECT 0::bigint AS position")
        return self

    def __exit__(self, *_failure: object) -> None:
        self.end_all()
        table = self.settings.table
        self.sql(f"DROP TABLE {table}, {table}_position; DROP SCHEMA IF EXISTS {self.settings.schema} CASCADE")

    # Processes

    def end_all(self) -> None:
        for child in self._processes:
            child.kill()
            child.communicate()

    def work(self, how: Guarantee | Naive, dsn: str | None = None, **options: Any) -> Work:
        return Work(replace(self.settings, dsn=dsn or self.dsn), how, **options)

    def crash(self, point: Point, deed: CrashAction) -> CrashPoint | MidCopy:
        if point is Point.IN_MID_COPY:
            return MidCopy(2, deed, self.witness, time=2)
        return CrashPoint(Step(point.value), ORDERS, deed, self.witness, time=2)

    def start(self, work: Work) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-m", "sweep.writer_process", work.packed()],
            cwd=TESTS,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # numpy, which pyarrow imports, starts in half the time
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(child)
        return child

    def run(self, work: Work) -> Ended:
        return self.end(self.start(work))

    def end(self, child: subprocess.Popen[str]) -> Ended:
        """Wait for its end, which nothing may hold up."""
        said, errors = child.communicate(timeout=PATIENCE)
        return Ended(child.returncode, [json.loads(line) for line in said.splitlines()], errors)

    def start_and_stall(self, work: Work) -> subprocess.Popen[str]:
        """A process that has stopped itself at its crash point, witnessed."""
        child = self.start(work)
        self.await_stopped(child)
        assert self.acted() == [child.pid]
        return child

    def await_stopped(self, child: subprocess.Popen[str]) -> None:
        identity = process.identify(child.pid)
        assert identity, child.communicate()[1]
        stopped = process.until(lambda: process.stopped(identity) or not process.alive(identity), PATIENCE)
        assert stopped
        assert child.poll() is None, child.communicate()[1]

    def wake(self, child: subprocess.Popen[str]) -> Ended:
        child.send_signal(signal.SIGCONT)
        return self.end(child)

    def acted(self) -> list[int]:
        """Which processes the crash point acted in."""
        return [visit.pid for visit in visits(self.witness) if visit.acted]

    # What is in the table

    def winners(self) -> dict[int, tuple[int, int]]:
        """Where rows have keys: the partition and the offset that each key's row came from."""
        rows = self.sql(f"SELECT id, _partition, _offset FROM {self.settings.table}")
        return {id_: (partition, offset) for id_, partition, offset in rows}

    def landed(self) -> list[int]:
        return [id_ for (id_,) in self.sql(f"SELECT id FROM {self.settings.table}")]

    def compared(self) -> Comparison:
        return compare_sink(range(EVENTS), self.landed())

    def lost_and_doubled(self) -> tuple[int, int]:
        comparison = self.compared()
        assert comparison.phantom == 0
        return comparison.lost, comparison.duplicated

    def sql(self, text: str) -> list[Any]:
        with closing(psycopg.connect(self.dsn, autocommit=True)) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []
