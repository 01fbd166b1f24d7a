"""The rows that were written last, from a table's end, without a scan of it all."""

from __future__ import annotations

from typing import Any

from psycopg import sql

from fencepost.sinks.postgres.connection import Connection, table_name, translated

Rows = list[tuple[Any, ...]]

ENOUGH_PAGES = 1 << 16  # half a gigabyte: whoever has found some rows in as many looks no further
GROWTH = 8

# Every table in which the rows of this one are: its partitions, or itself. Nothing else can be read by pages.
_LEAVES = """
SELECT n.nspname, c.relname, pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::bigint
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm') AND c.oid IN (
    SELECT pg_catalog.to_regclass(%(table)s)::pg_catalog.oid
    UNION SELECT relid::pg_catalog.oid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass(%(table)s)) WHERE isleaf
)
"""
_PAGES = """
SELECT *, pg_catalog.age(xmin) FROM {table}
WHERE ctid >= {first}::pg_catalog.tid AND ctid < {end}::pg_catalog.tid ORDER BY ctid DESC LIMIT {most}
"""


def last_rows(connection: Connection, table: str, most: int) -> tuple[list[str], Rows]:
    """Names of the columns, and the rows, the newest last. Of a view, whose rows have no place, any of them."""
    with translated(f"read table {table!r}"):
        leaves = connection.execute(_LEAVES, {"table": table_name(table).as_string(connection)}).fetchall()
        if not leaves:
            query = sql.SQL("SELECT * FROM {} LIMIT {}").format(table_name(table), sql.Literal(most))
            cursor = connection.execute(query)
            return [column.name for column in cursor.description or []], cursor.fetchall()
        nothing = connection.execute(sql.SQL("SELECT * FROM {} WHERE false").format(table_name(table)))
        names = [column.name for column in nothing.description or []]
        places = [(sql.Identifier(schema, name), pages) for schema, name, pages in leaves]
        found = [row for leaf, pages in places for row in _from_the_end(connection, leaf, pages, most)]
    if len(leaves) > 1:
        found.sort(key=lambda row: -row[-1])  # by the age of the transaction that wrote it
    return names, [row[:-1] for row in found[-most:]]


def _from_the_end(connection: Connection, leaf: sql.Identifier, pages: int, most: int) -> Rows:
    """PostgreSQL reserves pages ahead of what it writes, so the last ones may be empty: look back in growing steps."""
    found: Rows = []
    end, step = pages, most
    while end > 0 and len(found) < most and not (found and pages - end > ENOUGH_PAGES):
        first = max(end - step, 0)
        query = sql.SQL(_PAGES).format(
            table=leaf,
            first=sql.Literal(f"({first},0)"),
            end=sql.Literal(f"({end},0)"),
            most=sql.Literal(most - len(found)),
        )
        found += connection.execute(query).fetchall()
        end, step = first, step * GROWTH
    return found[::-1]
