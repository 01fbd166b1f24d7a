"""The SQLite sink as the suites of fencepost.testing drive it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from fencepost.errors import InputCut

from .store import SqliteStore, SqliteTarget


class InSqlite:
    """One file with one table."""

    doubles = True

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "contract.db")
        self._sql("CREATE TABLE numbers (id INTEGER)")

    def open(self) -> SqliteStore:
        return SqliteTarget(self.path, "numbers").open()

    def rows(self, ids: Sequence[int]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})

    def cut_rows(self, ids: Sequence[int]) -> Iterator[pa.RecordBatch]:
        yield from self.rows(ids)
        raise InputCut("the input broke off")

    def landed(self) -> list[int]:
        return [number for (number,) in self._sql("SELECT id FROM numbers ORDER BY rowid")]

    def _sql(self, text: str) -> list[tuple[int]]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(text).fetchall()
