"""Reading what a pipeline left in PostgreSQL: positions, spans, the last rows. Nothing here writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from fencepost.model import Span, TopicPartition
from fencepost.sinks.kind import Activity
from fencepost.sinks.postgres.connection import (
    KEEPALIVE,
    Connection,
    look_first_in_catalog,
    require_dsn,
    statement,
    table_name,
    translated,
)
from fencepost.sinks.postgres.table import read_columns


@dataclass(frozen=True)
class StoredSpan:
    """What one commit covered."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    rows: int | None  # None: not known, the position moved first
    dead: int
    landed_at: datetime


@contextmanager
def reader(dsn: str) -> Iterator[Connection]:
    """A connection that sees one moment and can change nothing."""
    require_dsn(dsn)
    with translated("connect to PostgreSQL"):
        connection = psycopg.connect(dsn, application_name="fencepost-reader", **KEEPALIVE)  # type: ignore[arg-type]
    with closing(connection):
        with translated("begin to read"):
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            look_first_in_catalog(connection)
        yield connection


def exists(connection: Connection, *name: str) -> bool:
    with translated("look for a table"):
        quoted = sql.Identifier(*name).as_string(connection)
        found = connection.execute("SELECT pg_catalog.to_regclass(%s)", (quoted,)).fetchone()
    return bool(found and found[0])


def has_columns(connection: Connection, table: str, *names: str) -> bool:
    return set(names) <= {column.name for column in read_columns(connection, table)}


def pages(connection: Connection, table: str) -> int:
    """How many pages a plain table has; 0 for anything that cannot be read by pages."""
    query = (
        "SELECT pg_catalog.pg_relation_size(oid) / pg_catalog.current_setting('block_size')::bigint "
        "FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass(%s)::pg_catalog.oid AND relkind = 'r'"
    )
    with translated(f"look at table {table!r}"):
        found = connection.execute(query, (table_name(table).as_string(connection),)).fetchone()
    return int(found[0]) if found else 0


def last_guarantee(connection: Connection, schema: str, pipeline: str) -> str | None:
    """The word under which it ran last; None where nothing is known of it."""
    if not has_columns(connection, f"{schema}.pipelines", "guarantee"):
        return None
    query = statement("SELECT guarantee FROM {schema}.pipelines WHERE pipeline = %s", schema)
    with translated("read the pipeline's last guarantee"):
        found = connection.execute(query, (pipeline,)).fetchone()
    return found[0] if found else None


def last_seen(connection: Connection, schema: str, pipeline: str) -> float | None:
    """How many seconds ago its owner took over or said that it lives; None where there has been none."""
    if not has_columns(connection, f"{schema}.pipelines", "seen_at"):
        return None
    query = statement(
        "SELECT extract(epoch FROM pg_catalog.clock_timestamp() - greatest(taken_at, seen_at))::pg_catalog.float8 "
        "FROM {schema}.pipelines WHERE pipeline = %s",
        schema,
    )
    with translated("see whether its owner lives"):
        found = connection.execute(query, (pipeline,)).fetchone()
    return found[0] if found else None


MOST_SPANS = 200_000  # that are kept in memory at once

_MANY_SPANS = """
WITH one AS (
    SELECT *, pg_catalog.lag(end_offset) OVER following AS last_end,
           pg_catalog.lag(rows IS NULL) OVER following AS last_uncounted,
           pg_catalog.row_number() OVER following AS place
    FROM {schema}.spans WHERE pipeline = %(pipeline)s WINDOW following AS (PARTITION BY topic, partition ORDER BY id)
), numbered AS (
    SELECT *, pg_catalog.count(*) FILTER (WHERE place %% %(together)s = 1 OR (
        start_offset = last_end AND (rows IS NULL) = last_uncounted
    ) IS NOT TRUE) OVER (PARTITION BY topic, partition ORDER BY id) AS number
    FROM one
)
SELECT topic, partition, pg_catalog.min(start_offset) AS start_offset, pg_catalog.max(end_offset) AS end_offset,
       pg_catalog.sum(rows)::bigint AS rows, pg_catalog.sum(dead)::bigint AS dead,
       pg_catalog.max(landed_at) AS landed_at
FROM numbered GROUP BY topic, partition, number ORDER BY pg_catalog.min(id)
"""


def stored_spans(connection: Connection, schema: str, pipeline: str, most: int = MOST_SPANS) -> list[StoredSpan]:
    """In the order of the commits. Where there are more than that, those that follow each other come together."""
    if not exists(connection, schema, "spans"):
        return []
    count = statement("SELECT pg_catalog.count(*) FROM {schema}.spans WHERE pipeline = %s", schema)
    with translated("read the spans"), connection.cursor(row_factory=class_row(StoredSpan)) as cursor:
        (there,) = connection.execute(count, (pipeline,)).fetchone() or (0,)
        if there > most:
            values = {"pipeline": pipeline, "together": -(-there // most)}
            return cursor.execute(statement(_MANY_SPANS, schema), values).fetchall()
        query = statement(
            "SELECT topic, partition, start_offset, end_offset, rows, dead, landed_at FROM {schema}.spans "
            "WHERE pipeline = %s ORDER BY id",
            schema,
        )
        return cursor.execute(query, (pipeline,)).fetchall()


def spans_over(connection: Connection, schema: str, pipeline: str, at: TopicPartition, offset: int) -> list[StoredSpan]:
    """What covered this offset of the topic that there is now."""
    if not exists(connection, schema, "spans"):
        return []
    query = statement(
        "SELECT topic, partition, start_offset, end_offset, rows, dead, landed_at FROM {schema}.spans "
        "WHERE pipeline = %s AND topic = %s AND partition = %s AND start_offset <= %s AND end_offset > %s ORDER BY id",
        schema,
    )
    with translated("read the spans"), connection.cursor(row_factory=class_row(StoredSpan)) as cursor:
        return cursor.execute(query, (pipeline, *at, offset, offset)).fetchall()


def spans_before(
    connection: Connection, schema: str, pipeline: str, at: TopicPartition, span: Span
) -> list[StoredSpan]:
    """What met these offsets of topics of the same name that were deleted since: kept as `topic@id`."""
    if not exists(connection, schema, "spans"):
        return []
    query = statement(
        "SELECT topic, partition, start_offset, end_offset, rows, dead, landed_at FROM {schema}.spans "
        "WHERE pipeline = %s AND pg_catalog.starts_with(topic, %s) AND partition = %s "
        "AND start_offset < %s AND end_offset > %s ORDER BY id",
        schema,
    )
    with translated("read the spans"), connection.cursor(row_factory=class_row(StoredSpan)) as cursor:
        return cursor.execute(query, (pipeline, f"{at.topic}@", at.partition, span.end, span.start)).fetchall()


def activity(connection: Connection, schema: str, pipeline: str) -> Activity:
    if not exists(connection, schema, "spans"):
        return Activity(0, 0, 0, None)
    query = statement(
        "SELECT coalesce(pg_catalog.sum(rows), 0)::bigint AS rows, coalesce(pg_catalog.sum(dead), 0)::bigint AS dead, "
        "coalesce(pg_catalog.sum(rows) FILTER "
        "(WHERE landed_at > pg_catalog.clock_timestamp() - interval '1 minute'), 0)::bigint "
        "AS rows_last_minute, pg_catalog.max(landed_at) AS last_batch, "
        "coalesce(pg_catalog.sum(end_offset - start_offset) FILTER (WHERE rows IS NULL), 0)::bigint AS uncounted "
        "FROM {schema}.spans WHERE pipeline = %s",
        schema,
    )
    with translated("read the spans"), connection.cursor(row_factory=class_row(Activity)) as cursor:
        return cursor.execute(query, (pipeline,)).fetchone() or Activity(0, 0, 0, None)
