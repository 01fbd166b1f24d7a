"""Where an audit's comparisons are computed: SQL over relations, on DuckDB for small topics, on Spark for large ones.

The relations have the same columns on both: `log` (topic, part, pos, id, ...) and `sink` (topic, part, pos, n, ...).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import pyarrow as pa

BUCKET_BITS = 16  # offsets per bucket: 65,536

Row = Mapping[str, Any]


class Engine(Protocol):
    """SQL, with the few expressions that dialects write differently."""

    name: str

    def put(self, name: str, table: pa.Table) -> None:
        """Make a table of ours known under a name."""

    def view(self, name: str, query: str) -> None:
        """Give a query a name; it is computed each time that it is read."""

    def keep(self, name: str, query: str) -> None:
        """Give a query a name and compute it once."""

    def rows(self, query: str) -> list[Row]:
        """The query's answer."""

    def hashes(self, *columns: str) -> tuple[str, str]:
        """Two independent hashes of the columns, as numbers whose sum over a bucket does not overflow."""

    def remainder(self, number: str, divisor: int) -> str:
        """The number modulo the divisor, never negative."""


def bucket(position: str) -> str:
    return f"({position} >> {BUCKET_BITS})"


def table(schema: Mapping[str, pa.DataType], rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    """A small relation from tuples."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.values(), strict=True)]
    return pa.table(arrays, names=list(schema))
