"""Does PostgreSQL compare a table's keys and values as the audit does? Where it may not, nothing can be said."""

from __future__ import annotations

from fencepost.model import Merge
from fencepost.sinks.auditing import KeyOrder
from fencepost.sinks.postgres.columns import Column
from fencepost.sinks.postgres.connection import Connection, table_name, translated
from fencepost.sinks.postgres.table import read_columns

_TEXTS = ("text", "character varying")
_COMPARED = (
    *("boolean", "smallint", "integer", "bigint", "numeric", "real", "double precision", "bytea", "date"),
    *("timestamp without time zone", "timestamp with time zone"),
)
_BYTEWISE = ("C", "POSIX", "C.UTF-8", "C.utf8", "ucs_basic", "pg_c_utf8")
_COLLATIONS = """
SELECT a.attname, CASE WHEN c.collprovider = 'c' THEN c.collcollate WHEN c.collprovider = 'b' THEN 'C'
    WHEN c.collprovider = 'd' AND d.datlocprovider = 'c' THEN d.datcollate
    WHEN c.collprovider = 'd' AND d.datlocprovider = 'b' THEN 'C' ELSE c.collname END, c.collisdeterministic
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
WHERE a.attrelid = pg_catalog.to_regclass(%s)::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped
"""


def read_order(connection: Connection, table: str, merge: Merge) -> KeyOrder:
    with translated(f"describe table {table!r}"):
        rows = connection.execute(_COLLATIONS, (table_name(table).as_string(connection),)).fetchall()
    collations = {name: (collation, same_bytes) for name, collation, same_bytes in rows}
    columns = {column.name: column for column in read_columns(connection, table)}
    reasons = [_key(columns.get(name), name, collations.get(name)) for name in merge.key]
    if merge.order_by:
        reasons.append(_order(columns.get(merge.order_by), merge.order_by, collations.get(merge.order_by)))
    return KeyOrder("; ".join(filter(None, reasons)), collations.get("_topic", ("", True))[0] in _BYTEWISE)


Collation = tuple[str, bool] | None


def _kind(column: Column) -> str:
    return column.type.split("(")[0] + column.type.partition(")")[2]


def _key(column: Column | None, name: str, collation: Collation) -> str:
    if column is None:
        return f"the table has no column {name!r}"
    if _kind(column) in _TEXTS:
        return "" if collation is None or collation[1] else f"column {name!r} takes different texts for equal"
    return "" if _kind(column) in _COMPARED else f"keys of type {column.type} ({name!r}) are not compared elsewhere"


def _order(column: Column | None, name: str, collation: Collation) -> str:
    if column is None:
        return f"the table has no column {name!r}"
    if _kind(column) in _TEXTS:
        if collation is not None and collation[0] in _BYTEWISE:
            return ""
        return f"order_by {name!r} is text in the order of collation {collation[0] if collation else '?'}"
    return "" if _kind(column) in _COMPARED else f"values of type {column.type} ({name!r}) are not compared elsewhere"
