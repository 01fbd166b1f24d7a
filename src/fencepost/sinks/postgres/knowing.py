"""Every pipeline whose ledger is in a database, in whichever schema."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString

from fencepost.fence import StoredPosition
from fencepost.model import Span, TopicPartition
from fencepost.sinks.auditing import Commit
from fencepost.sinks.knowing import CommitsOver, KnownPipeline, TimedCommit
from fencepost.sinks.postgres.connection import Connection, statement, translated
from fencepost.sinks.postgres.reading import has_columns

MOST_COMMITS = 1_000
MOST_RECENT = 20_000  # spans that are looked at for what happened of late

_SCHEMAS = """
SELECT namespace.nspname FROM pg_catalog.pg_class AS one
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = one.relnamespace
WHERE one.relkind = 'r' AND one.relname IN ('pipelines', 'positions', 'spans')
  AND pg_catalog.has_schema_privilege(namespace.oid, 'USAGE')
  AND pg_catalog.has_table_privilege(one.oid, 'SELECT')
GROUP BY namespace.nspname HAVING pg_catalog.count(*) = 3 ORDER BY 1
"""
_PIPELINES = "SELECT pipeline, epoch, guarantee, taken_at, seen_at FROM {schema}.pipelines ORDER BY pipeline"
_POSITIONS = (
    "SELECT pipeline, topic, partition, position, owner, epoch, topic_id, moved_at FROM {schema}.positions "
    "ORDER BY pipeline, topic, partition"
)
_POSITION = "SELECT position FROM {schema}.positions WHERE pipeline = %s AND topic = %s AND partition = %s"
_RECENT = """
SELECT pipeline, coalesce(pg_catalog.sum(rows) FILTER
    (WHERE landed_at > pg_catalog.clock_timestamp() - interval '1 minute'), 0)::bigint, pg_catalog.max(landed_at)
FROM (SELECT * FROM {schema}.spans ORDER BY id DESC LIMIT %s) AS one GROUP BY pipeline
"""
_COMMITS = "SELECT topic, partition, start_offset, end_offset, rows, dead, landed_at FROM {schema}.spans "
_OVER = _COMMITS + (
    "WHERE pipeline = %s AND topic = %s AND partition = %s AND start_offset < %s AND end_offset > %s "
    "ORDER BY id DESC LIMIT %s"
)
_SINCE = _COMMITS + "WHERE pipeline = %s AND landed_at >= %s ORDER BY id DESC LIMIT %s"
_OURS = {  # somebody else's tables may have these names
    "pipelines": ("pipeline", "epoch", "guarantee", "taken_at", "seen_at"),
    "positions": ("pipeline", "topic", "partition", "position", "owner", "epoch", "topic_id", "moved_at"),
    "spans": ("id", "pipeline", "topic", "partition", "start_offset", "end_offset", "rows", "dead", "landed_at"),
}


def known_pipelines(connection: Connection) -> list[KnownPipeline]:
    with translated("look for ledgers"):
        schemas = [name for (name,) in connection.execute(_SCHEMAS).fetchall()]
    return [
        one
        for schema in schemas
        if all(has_columns(connection, f"{schema}.{table}", *columns) for table, columns in _OURS.items())
        for one in _of_schema(connection, schema)
    ]


def _of_schema(connection: Connection, schema: str) -> list[KnownPipeline]:
    stored: dict[str, dict[TopicPartition, StoredPosition]] = defaultdict(dict)
    for pipeline, topic, partition, *held in _rows(connection, _POSITIONS, schema):
        stored[pipeline][TopicPartition(topic, partition)] = StoredPosition(*held)
    recent = {pipeline: found for pipeline, *found in _rows(connection, _RECENT, schema, MOST_RECENT)}
    return [
        KnownPipeline(name, schema, epoch, guarantee, taken, seen, stored[name], *recent.get(name, (0, None)))
        for name, epoch, guarantee, taken, seen in _rows(connection, _PIPELINES, schema)
    ]


def commits_over(connection: Connection, one: KnownPipeline, at: TopicPartition, span: Span) -> CommitsOver:
    held = _rows(connection, _POSITION, one.place, one.pipeline, *at)
    values = (one.pipeline, *at, span.end, span.start, MOST_COMMITS)
    commits = [_commit(row) for row in _rows(connection, _OVER, one.place, *values)]
    return CommitsOver(held[0][0] if held else None, commits)


def commits_since(connection: Connection, one: KnownPipeline, since: datetime) -> list[TimedCommit]:
    return [_commit(row) for row in _rows(connection, _SINCE, one.place, one.pipeline, since, MOST_RECENT)]


def _commit(row: Sequence[Any]) -> TimedCommit:
    topic, partition, start, end, rows, dead, landed_at = row
    return TimedCommit(Commit(TopicPartition(topic, partition), Span(start, end), rows, dead), landed_at)


def _rows(connection: Connection, query: LiteralString, schema: str, *values: Any) -> list[Any]:
    with translated("read the ledger"):
        return connection.execute(statement(query, schema), values).fetchall()
