"""The target table: made from the transform's columns, or compared with them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from psycopg import sql

from fencepost.errors import Usage
from fencepost.sinks.postgres.columns import Column, columns_for, match_columns
from fencepost.sinks.postgres.connection import Connection, table_name, translated

_COLUMNS = """
SELECT attname, pg_catalog.format_type(atttypid, atttypmod),
       attnotnull AND NOT atthasdef AND attidentity = '' AND attgenerated = ''
FROM pg_catalog.pg_attribute
WHERE attrelid = pg_catalog.to_regclass(%s)::pg_catalog.oid AND attnum > 0 AND NOT attisdropped
ORDER BY attnum
"""


_PLACE = """
SELECT nspname, relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = relnamespace
WHERE c.oid = pg_catalog.to_regclass(%s)::pg_catalog.oid
"""


def located(connection: Connection, table: str) -> str:
    """The table with its schema: where this connection's search_path finds it now, or would make it.

    Whoever works with it by this name is not led elsewhere by a table that somebody makes later.
    """
    with translated(f"look for table {table!r}"):
        place = connection.execute(_PLACE, (table_name(table).as_string(connection),)).fetchone()
        if not place and "." not in table:
            (schema,) = connection.execute("SELECT pg_catalog.current_schema()").fetchone() or (None,)
            place = (schema, table) if schema else None
    return table if not place or any("." in part for part in place) else ".".join(place)


def read_columns(connection: Connection, table: str) -> tuple[Column, ...]:
    """The table's columns; none when there is no such table."""
    with translated(f"describe table {table!r}"):
        rows = connection.execute(_COLUMNS, (table_name(table).as_string(connection),)).fetchall()
    return tuple(Column(*row) for row in rows)


def fit_columns(
    connection: Connection, table: str, schema: pa.Schema, key: Sequence[str] = ()
) -> tuple[tuple[Column, ...], bool]:
    """The target columns in the schema's order, and whether the table exists. Raises Usage where they do not fit.

    `key`: the columns of which no two rows may have the same.
    """
    there = read_columns(connection, table)
    if not there:
        return columns_for(schema), False
    columns = match_columns(schema, table, there)
    if key:
        _require_unique(connection, table, key)
    return columns, True


def make_table(connection: Connection, table: str, columns: tuple[Column, ...], key: Sequence[str] = ()) -> None:
    """Types come from our own list, names are quoted by the driver. Where it is there, nothing is asked of the role."""
    if read_columns(connection, table):
        return
    parts: list[sql.Composable] = [
        sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.type)) for column in columns
    ]
    if key:
        parts.append(sql.SQL("PRIMARY KEY ({})").format(_names(key)))
    statement = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(table_name(table), sql.SQL(", ").join(parts))
    with translated(f"make table {table!r}"):
        connection.execute(statement)


_UNIQUE = """
SELECT pg_catalog.array_agg(attname::pg_catalog.text), pg_catalog.bool_and(attnotnull)
FROM pg_catalog.pg_index JOIN pg_catalog.pg_attribute
  ON attrelid = indrelid AND attnum = ANY (indkey[0:indnkeyatts - 1])
WHERE indrelid = pg_catalog.to_regclass(%s)::pg_catalog.oid AND indisunique AND indisvalid AND indimmediate
  AND indpred IS NULL AND indexprs IS NULL
GROUP BY indexrelid
"""


_LIMITING = """
SELECT indexrelid::pg_catalog.regclass::pg_catalog.text FROM pg_catalog.pg_index
WHERE indrelid = pg_catalog.to_regclass(%s)::pg_catalog.oid AND (indisunique OR indisexclusion) ORDER BY 1
"""


def unique_indexes(connection: Connection, table: str) -> list[str]:
    """The indexes for which the table may refuse a row because of another one."""
    with translated(f"look at the indexes of {table!r}"):
        found = connection.execute(_LIMITING, (table_name(table).as_string(connection),)).fetchall()
    return [name for (name,) in found]


def _require_unique(connection: Connection, table: str, key: Sequence[str]) -> None:
    """Refuse a table in which two rows could have the same key, or a row none; with the statement that fixes it."""
    with translated(f"look at the indexes of {table!r}"):
        found = connection.execute(_UNIQUE, (table_name(table).as_string(connection),)).fetchall()
    exact = [never_null for names, never_null in found if set(names) == set(key)]
    if any(exact):
        return
    name, names = table_name(table).as_string(connection), _names(key).as_string(connection)
    columns = (sql.Identifier(column).as_string(connection) for column in key)
    never_null = f"ALTER TABLE {name} {', '.join(f'ALTER {column} SET NOT NULL' for column in columns)}"
    if exact:
        raise Usage(f"table {table!r} takes rows whose key ({', '.join(key)}) is null", never_null)
    raise Usage(
        f"table {table!r} has no unique index on exactly ({', '.join(key)}), so a key could have two rows",
        f"CREATE UNIQUE INDEX ON {name} ({names}); {never_null}",
    )


def _names(columns: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


_MAY = """
SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMPORARY'),
       pg_catalog.current_database()::pg_catalog.text, current_user::pg_catalog.text
"""


def require_temporary(connection: Connection, key: Sequence[str]) -> None:
    """Refuse a role that may not make temporary tables, where rows have keys."""
    if not key:
        return
    with translated("look for the right to make temporary tables"):
        may, *names = connection.execute(_MAY).fetchone() or (True, "", "")
    if not may:
        database, role = (sql.Identifier(name).as_string(connection) for name in names)
        raise Usage(
            "upsert and dedupe use a temporary table, and this role may not create one in this database",
            f"GRANT TEMPORARY ON DATABASE {database} TO {role}",
        )
