"""A table as the audit's side of the last hop: its rows, by place or by id, through ADBC or JDBC.

Both are clients that no writer of ours uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import pyarrow as pa
from psycopg import conninfo, sql

from fencepost.errors import Unreachable, Usage
from fencepost.rows.shape import PROVENANCE
from fencepost.sinks.auditing import Columns, LandedRows, Relation, SparkRead
from fencepost.sinks.postgres import dead_letters
from fencepost.sinks.postgres.connection import table_name
from fencepost.sinks.postgres.jdbc import jdbc
from fencepost.sinks.postgres.reading import exists, has_columns, pages, reader
from fencepost.sinks.postgres.table import located

PAGES = 8192  # of a table to one reader of Spark's: 64 MiB
JDBC_ROWS = "20000"  # per round trip


def what_landed(dsn: str, table: str, columns: Columns) -> LandedRows:
    with reader(dsn) as connection:
        if not exists(connection, *table.split(".")):
            raise Usage(f"there is no table {table!r}", "has the pipeline run?")
        place = located(connection, table)
        provenance = has_columns(connection, table, *PROVENANCE.names)
        for column in filter(None, (columns.id, columns.payload)):
            if not has_columns(connection, table, column):
                raise Usage(f"table {table!r} has no column {column!r}")
        rows = _rows(place, columns, provenance).as_string(connection)
        letters = dead_letters.table_for(place)
        dead = _dead(letters).as_string(connection) if exists(connection, *letters.split(".")) else None
        size = pages(connection, place)
    return LandedRows(_relation(dsn, rows, size), provenance, _relation(dsn, dead) if dead else None)


def _relation(dsn: str, query: str, size: int = 0) -> Relation:
    return Relation(partial(_arrow, dsn, query), partial(_spark, dsn, query, size))


def _arrow(dsn: str, query: str) -> pa.Table:
    import adbc_driver_postgresql.dbapi as adbc

    try:
        with adbc.connect(_among_its_own(dsn)) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetch_arrow_table()
    except adbc.Error as error:
        raise Unreachable(f"PostgreSQL could not be read: {error}") from error


def _among_its_own(dsn: str) -> str:
    """The driver asks PostgreSQL for its types in words that somebody could have given another meaning in `public`."""
    with reader(dsn) as connection:
        return conninfo.make_conninfo(dsn, options=f"{connection.info.options} -c search_path=pg_catalog".strip())


def _spark(dsn: str, query: str, size: int) -> Sequence[SparkRead]:
    """Where the table has many pages, by several readers of a share of them each."""
    url, properties = jdbc(dsn)
    properties |= {"url": url, "fetchsize": JDBC_ROWS}
    bounds = [*range(0, size, PAGES), None] if size > PAGES else [0, None]
    shares = [
        f"{query} WHERE ctid >= '({first},0)'::pg_catalog.tid"
        + ("" if end is None else f" AND ctid < '({end},0)'::pg_catalog.tid")
        for first, end in pairwise(bounds)
    ]
    return [
        SparkRead("jdbc", {**properties, "dbtable": f"({share}) AS rows"})
        for share in (shares if len(shares) > 1 else [query])
    ]


def _rows(table: str, columns: Columns, provenance: bool) -> sql.Composed:
    nowhere = "NULL::pg_catalog.text AS topic, NULL::integer AS part, NULL::bigint AS pos"
    known = "_topic::pg_catalog.text AS topic, _partition::integer AS part, _offset::bigint AS pos"
    place, number = (known, "_n::integer") if provenance else (nowhere, "0")
    id_: sql.Composable = sql.SQL("NULL")
    payload: sql.Composable = sql.SQL("NULL")
    if columns.id:
        place, number, id_ = nowhere, "0", sql.Identifier(columns.id)
    if columns.payload:
        payload = sql.SQL("pg_catalog.md5({})").format(sql.Identifier(columns.payload))
    text = "SELECT {place}, {id}::pg_catalog.text AS id, {n} AS n, {payload}::pg_catalog.text AS payload FROM {table}"
    return sql.SQL(text).format(
        place=sql.SQL(place), id=id_, n=sql.SQL(number), payload=payload, table=table_name(table)
    )


def _dead(table: str) -> sql.Composed:
    columns = sql.SQL('topic, partition AS part, "offset" AS pos, NULL::pg_catalog.text AS id')
    return sql.SQL("SELECT {} FROM {}").format(columns, table_name(table))
