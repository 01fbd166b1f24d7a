"""One table in the shared database that takes record batches, and shows what is in it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from psycopg import sql

from fencepost.sinks.postgres.binary_copy import Copier
from fencepost.sinks.postgres.connection import Connection, table_name
from fencepost.sinks.postgres.table import fit_columns, make_table


class Target:
    """One table of the test's own."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.name = name

    def make(self, columns: str) -> None:
        self.connection.execute(sql.SQL("CREATE TABLE {} ({})").format(table_name(self.name), sql.SQL(columns)))

    def take(self, rows: pa.RecordBatch) -> None:
        """As a pipeline does: make the table or compare it, then COPY."""
        columns, exists = fit_columns(self.connection, self.name, rows.schema)
        if not exists:
            make_table(self.connection, self.name, columns)
        Copier(self.connection, self.name, columns).copy(rows)

    def texts(self, column: str = "v") -> list[str | None]:
        """The values as PostgreSQL itself prints them, in the order in which they came."""
        query = sql.SQL("SELECT {}::text FROM {} ORDER BY ctid").format(sql.Identifier(column), table_name(self.name))
        return [text for (text,) in self.connection.execute(query)]

    def values(self) -> list[tuple[Any, ...]]:
        query = sql.SQL("SELECT * FROM {} ORDER BY ctid").format(table_name(self.name))
        return self.connection.execute(query, binary=True).fetchall()

    def drop(self) -> None:
        self.connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table_name(self.name)))


def column(kind: pa.DataType | pa.Field, values: Sequence[Any]) -> pa.RecordBatch:
    """A batch with one column, `v`."""
    field = kind if isinstance(kind, pa.Field) else pa.field("v", kind)
    return pa.RecordBatch.from_arrays([pa.array(values, field.type)], schema=pa.schema([field]))


def broken_utf8() -> pa.Array:
    """Three texts, the second of which is none."""
    offsets = struct.pack("<4i", 0, 2, 5, 6)
    return pa.StringArray.from_buffers(3, pa.py_buffer(offsets), pa.py_buffer(b"ok\xff\xfe!x"))
