"""What the ledger holds about one offset, and whether there is a row of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from psycopg import sql

from fencepost.errors import Usage
from fencepost.model import Span, TopicPartition
from fencepost.sinks.auditing import Commit, CommitsAt, RowsAt
from fencepost.sinks.postgres import dead_letters, ledger
from fencepost.sinks.postgres.connection import Connection, table_name, translated
from fencepost.sinks.postgres.reading import StoredSpan, exists, has_columns, spans_before, spans_over
from fencepost.sinks.postgres.table import located

_PLACE = ("_topic", "_partition", "_offset")
_LETTER = ("topic", "partition", "offset")


def commit_of(one: StoredSpan) -> Commit:
    at, span = TopicPartition(one.topic, one.partition), Span(one.start_offset, one.end_offset)
    return Commit(at, span, one.rows, one.dead)


def commits_at(connection: Connection, schema: str, pipeline: str, at: TopicPartition, offset: int) -> CommitsAt:
    stored = ledger.read(connection, schema, pipeline)
    over = [commit_of(one) for one in spans_over(connection, schema, pipeline, at, offset)]
    around = over[0].span if len(over) == 1 else Span(offset, offset + 1)
    earlier = [commit_of(one) for one in spans_before(connection, schema, pipeline, at, around)]
    return CommitsAt(stored, over, earlier)


def rows_at(
    connection: Connection, name: str, at: TopicPartition, offset: int, firsts: bool, span: Span | None
) -> RowsAt:
    if not has_columns(connection, name, *_PLACE):
        raise Usage(
            f"the rows of {name!r} have no provenance",
            "keep the column _from in the transform, and leave provenance on",
        )
    place, table = Span(offset, offset + 1), located(connection, name)
    rows = _count(connection, table, _PLACE, at, place)
    known = firsts and has_columns(connection, table, "_n")
    first = _count(connection, table, _PLACE, at, place, "_n") if known else None
    if rows:
        return RowsAt(rows, None, first)
    dead = _letter(connection, dead_letters.table_for(table), at, place)
    in_span = _count(connection, table, _PLACE, at, span) if span is not None and dead is None else None
    return RowsAt(rows, dead, first, in_span)


def _letter(connection: Connection, letters: str, at: TopicPartition, place: Span) -> str | None:
    """Why the record there is a dead letter; None: it is none."""
    if not exists(connection, *letters.split(".")):
        return None
    why = sql.Identifier("_dead") if has_columns(connection, letters, "_dead") else sql.SQL("NULL")
    query = sql.SQL("SELECT {} FROM {} WHERE {} LIMIT 1")
    with translated(f"read table {letters!r}"):
        found = connection.execute(query.format(why, table_name(letters), _places(_LETTER, at, place))).fetchone()
    return None if found is None else str(found[0] or "")


def _count(
    connection: Connection, table: str, columns: Sequence[str], at: TopicPartition, span: Span, first: str | None = None
) -> int:
    """Rows of these offsets; only those that are 0 in column `first`, where it is given."""
    places = _places(columns, at, span, first)
    query = sql.SQL("SELECT pg_catalog.count(*) FROM {} WHERE {}").format(table_name(table), places)
    with translated(f"read table {table!r}"):
        (count,) = connection.execute(query).fetchone() or (0,)
    return int(count)


def _places(columns: Sequence[str], at: TopicPartition, span: Span, first: str | None = None) -> sql.Composable:
    """Values as literals: with parameters the driver would look for them in the table's name."""
    compared = zip([*columns, columns[-1]], ("=", "=", ">=", "<"), (*at, span.start, span.end), strict=True)
    return sql.SQL(" AND ").join(
        sql.SQL("{} OPERATOR(pg_catalog.{}) {}").format(sql.Identifier(column), sql.SQL(operator), sql.Literal(value))
        for column, operator, value in chain(compared, [(first, "=", 0)] if first else [])
    )
