"""Lag over time, in a small file of this user: a line for each group and moment, for a day."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from fencepost.errors import Unreachable, Usage
from fencepost.kafka.group_lag import GroupLag

KEPT_SECONDS = 24 * 3600
POINTS = 300  # of a chart
RATE_SECONDS = 300.0
_TABLE = """
CREATE TABLE IF NOT EXISTS lag (
    at REAL NOT NULL, cluster TEXT NOT NULL, name TEXT NOT NULL, records INTEGER NOT NULL,
    seconds REAL, position INTEGER NOT NULL, stable INTEGER NOT NULL,
    partitions INTEGER NOT NULL, PRIMARY KEY (cluster, name, at)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS lag_by_time ON lag (at);
"""


@dataclass(frozen=True)
class Point:
    """One group at one moment."""

    at: float
    records: int
    seconds: float | None  # how old the oldest record is that waits
    position: int  # of all partitions together, as the next
    stable: int
    partitions: int


@dataclass(frozen=True)
class Pace:
    """How fast a group reads, and how fast there is more to read; in offsets per second."""

    reads: float
    grows: float

    def catches_up(self, lag: int) -> float | None:
        """In so many seconds, if both go on like that; None: never."""
        if lag <= 0:
            return 0.0
        return lag / (self.reads - self.grows) if self.reads > self.grows * 1.0001 + 1e-9 else None


class History:
    """For any number of threads, and for several servers at once."""

    def __init__(self, file: Path | None) -> None:
        """None keeps it in memory. Raises Usage where the file cannot be written."""
        try:
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                file.touch(mode=0o600)
            self._database = sqlite3.connect(file or ":memory:", check_same_thread=False, timeout=5)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.executescript(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise Usage(
                f"{file} cannot be used for the history of lag", "set FENCEPOST_CACHE to another folder"
            ) from error
        self._lock = Lock()

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def add(self, cluster: str, groups: Iterable[GroupLag], now: float | None = None) -> None:
        at = time.time() if now is None else now
        lines = [
            (at, cluster, one.group, one.records, behind(one, at), one.position, one.stable, len(one.partitions))
            for one in groups
        ]
        with self._lock, _explained(), self._database:
            self._database.executemany("INSERT OR REPLACE INTO lag VALUES (?, ?, ?, ?, ?, ?, ?, ?)", lines)
            self._database.execute("DELETE FROM lag WHERE at < ?", (at - KEPT_SECONDS,))

    def of(self, cluster: str, name: str, seconds: float, now: float | None = None) -> list[Point]:
        """At most so many points, each the last of its share of the time."""
        until = time.time() if now is None else now
        step = max(seconds / POINTS, 0.001)
        query = (
            "SELECT max(at), records, seconds, position, stable, partitions FROM lag "
            "WHERE cluster = ? AND name = ? AND at >= ? GROUP BY CAST(at / ? AS INTEGER) ORDER BY at"
        )
        with self._lock, _explained():
            found = self._database.execute(query, (cluster, name, until - seconds, step)).fetchall()
        return [Point(*row) for row in found]

    def pace(self, cluster: str, name: str, now: float | None = None) -> Pace | None:
        """Over the last minutes; None where too little is known, or positions were set by hand."""
        points = self.of(cluster, name, RATE_SECONDS, now)
        return pace(points)


def behind(one: GroupLag, at: float) -> float:
    """In seconds; none where a producer's clock is ahead of ours."""
    return max(at - one.oldest.timestamp(), 0.0) if one.oldest else 0.0


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        remedy = "make room on the disk, or set FENCEPOST_CACHE to another folder"
        raise Unreachable(f"the history of lag cannot be used: {error}", remedy) from error


def pace(points: list[Point]) -> Pace | None:
    """Between the first and the last. Pure."""
    points = [point for point in points if point.partitions == points[-1].partitions]
    if len(points) < 2 or points[-1].at - points[0].at < 1:
        return None
    one, last = points[0], points[-1]
    read, more, seconds = last.position - one.position, last.stable - one.stable, last.at - one.at
    return Pace(read / seconds, more / seconds) if read >= 0 and more >= 0 else None
