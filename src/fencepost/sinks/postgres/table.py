"""The target table: made from the transform's columns, or compared with them."""

from __future__ import annotations

import pyarrow as pa
from psycopg import sql

from fencepost.sinks.postgres.columns import Column, columns_for, match_columns
from fencepost.sinks.postgres.session import Connection, table_name, translated

_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod),
       attnotnull AND NOT atthasdef AND attidentity = '' AND attgenerated = ''
FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
ORDER BY attnum
"""


def read_columns(connection: Connection, table: str) -> tuple[Column, ...]:
    """The table's columns; none when there is no such table."""
    with translated(f"describe table {table!r}"):
        rows = connection.execute(_COLUMNS, (table_name(table).as_string(connection),)).fetchall()
    return tuple(Column(*row) for row in rows)


def fit_columns(connection: Connection, table: str, schema: pa.Schema) -> tuple[tuple[Column, ...], bool]:
    """The target columns in the schema's order, and whether the table exists. Raises Usage where they do not fit."""
    there = read_columns(connection, table)
    return (match_columns(schema, table, there), True) if there else (columns_for(schema), False)


def make_table(connection: Connection, table: str, columns: tuple[Column, ...]) -> None:
    """Types come from our own list, names are quoted by the driver."""
    parts = [sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.type)) for column in columns]
    statement = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(table_name(table), sql.SQL(", ").join(parts))
    with translated(f"make table {table!r}"):
        connection.execute(statement)
