"""The audit's engine for topics that fit into memory: DuckDB, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from fencepost.audit.engines.engine import Row
from fencepost.errors import Refused

SALT = 0x5DEECE66D
MEMORY = "2GB"  # it spills to disk beyond that


class DuckEngine:
    """SQL on DuckDB."""

    name = "python"

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def put(self, name: str, table: pa.Table) -> None:
        self._connection.register(f"_{name}", table)
        self._run(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM _{name}")

    def view(self, name: str, query: str) -> None:
        self._run(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")

    def keep(self, name: str, query: str) -> None:
        self._run(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")

    def rows(self, query: str) -> list[Row]:
        answer = self._run(query)
        names = [column[0] for column in answer.description or []]
        return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]

    def hashes(self, *columns: str) -> tuple[str, str]:
        first = f"hash({', '.join(columns)})"
        return f"({first} >> 24)::BIGINT", f"(hash(xor({first}, {SALT}::UBIGINT)) >> 24)::BIGINT"

    def remainder(self, number: str, divisor: int) -> str:
        return f"({number} % {divisor})"

    def _run(self, query: str) -> duckdb.DuckDBPyConnection:
        try:
            return self._connection.execute(query)
        except duckdb.Error as error:
            raise Refused(f"the audit's query failed: {error}") from error


@contextmanager
def open_duck() -> Iterator[DuckEngine]:
    connection = duckdb.connect(config={"memory_limit": MEMORY, "autoinstall_known_extensions": "false"})
    try:
        yield DuckEngine(connection)
    finally:
        connection.close()
