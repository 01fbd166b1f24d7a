"""The audit of one pipeline: its topic up to its positions, its table, its dead letters and its spans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from psycopg import sql

from fencepost.audit.readers import read_committed
from fencepost.audit.table import LandedSpan, Output, Place, TableAudit, audit_table
from fencepost.errors import Usage
from fencepost.model import Span, TopicPartition
from fencepost.sinks.postgres import dead
from fencepost.sinks.postgres.reading import exists, has_columns, reader, stored_positions, stored_spans
from fencepost.sinks.postgres.session import Connection, table_name, translated
from fencepost.spec import PipelineSpec


def audit_pipeline(spec: PipelineSpec) -> TableAudit:
    """Positions first, then the table in the same moment, then the log up to there: what waits is not lost."""
    options = spec.sink.options
    with reader(options.dsn or "") as connection:
        stored = stored_positions(connection, options.ledger_schema, spec.name)
        rows = _rows(connection, options.table)
        aside = _dead(connection, dead.table_for(options.table))
        spans = [
            LandedSpan(TopicPartition(at.topic, at.partition), Span(at.start_offset, at.end_offset), at.rows)
            for at in stored_spans(connection, options.ledger_schema, spec.name)
        ]
    positions = {TopicPartition(row.topic, row.partition): row.position for row in stored}
    return audit_table(_log(spec, positions), rows, aside, spans)


def _log(spec: PipelineSpec, positions: Mapping[TopicPartition, int]) -> list[Place]:
    if not positions:
        return []
    return [
        (TopicPartition(spec.source.topic, cast(int, record.partition())), cast(int, record.offset()))
        for record in read_committed(spec.kafka, spec.source.topic, until=positions)
    ]


def _rows(connection: Connection, table: str) -> list[Output]:
    if not exists(connection, *table.split(".")):
        return []
    query = sql.SQL("SELECT _topic, _partition, _offset, _n FROM {}").format(table_name(table))
    if not has_columns(connection, table, "_topic", "_partition", "_offset", "_n"):
        raise Usage(
            f"the rows of table {table!r} do not know where they came from",
            "carry the column _from through the transform, and leave provenance on",
        )
    with translated(f"read table {table!r}"):
        found = connection.execute(query).fetchall()
    return [(TopicPartition(topic, partition), offset, n) for topic, partition, offset, n in found]


def _dead(connection: Connection, table: str) -> list[Place]:
    if not exists(connection, *table.split(".")):
        return []
    query = sql.SQL('SELECT topic, partition, "offset" FROM {}').format(table_name(table))
    with translated(f"read table {table!r}"):
        found = connection.execute(query).fetchall()
    return [(TopicPartition(topic, partition), offset) for topic, partition, offset in found]
