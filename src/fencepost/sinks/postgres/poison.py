"""Which rows of a refused batch the table does not take: found by trying parts, in a transaction that is given up.

Rows that it takes stay there while the next are tried: one may be bad only because of another before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import psycopg
import pyarrow as pa
from psycopg import sql

from fencepost.errors import Poison, Refused
from fencepost.model import Span, TopicPartition
from fencepost.rows.bisect import bad_ones
from fencepost.sinks.postgres.binary_copy import BEFORE_COPY, Copier
from fencepost.sinks.postgres.connection import Connection, translated
from fencepost.sinks.postgres.own_session import begin
from fencepost.sinks.postgres.probing import Prober
from fencepost.sinks.postgres.repeated import is_unique

MOST = 100  # that are named at once, where the run stops for one


def find_poison(
    connection: Connection,
    copier: Copier,
    partition: TopicPartition | None,
    refusal: Refused,
    most: int = MOST,
    repeats: bool = False,
) -> Refused:
    """The copier's refusal with the offsets of the rows that caused it, where the rows know where they came from.

    The refusal itself where none of them is to blame. `partition`: None where rows came from several, and say
    themselves which. `repeats`: rows may be there already, so what only a unique index keeps out is not bad. Raises
    Refused where the table's types are not what they were: that is no row's fault. Leaves the transaction with what
    was tried in it: the caller rolls it back.
    """
    if not copier.refused:
        return refusal
    if not refusal.about_values:
        with translated("look at the table's types"):
            begin_again(connection)
            copier.require_types()
        return refusal
    rows = pa.concat_batches(copier.refused)
    if "_offset" not in rows.schema.names:
        return refusal

    prober = Prober(copier, rows)

    def why(start: int, end: int) -> str | None:
        refused = prober.refusal(start, end)
        there = repeats and end - start == 1 and refused is not None and is_unique(refused)
        return None if refused is None or there else refused.message

    with translated("look for the records that were refused"):
        begin_again(connection)
        prober.hold_types()
        found = bad_ones(0, rows.num_rows, why, most)
    return poison_of(rows, found, partition) if found else refusal


def poison_of(rows: pa.RecordBatch, bad: Sequence[tuple[int, str]], partition: TopicPartition | None) -> Poison:
    """These rows by their offsets; where they came from several partitions, those of the first one's."""
    places = {row: partition or _place(rows, row) for row, _ in bad}
    first = places[bad[0][0]]
    offsets = rows.column("_offset")
    reasons = {offsets[row].as_py(): reason for row, reason in bad if places[row] == first}
    return Poison(str(first), list(reasons.items()))


def _place(rows: pa.RecordBatch, row: int) -> TopicPartition:
    return TopicPartition(rows.column("_topic")[row].as_py(), rows.column("_partition")[row].as_py())


def find_staged_poison(
    connection: Connection,
    partition: TopicPartition,
    span: Span,
    attempt: Callable[[Span], None],
    refusal: Refused,
    most: int = MOST,
) -> Refused:
    """The same for rows that are in the database already: `attempt` tries those of some offsets.

    In a transaction that the caller has begun again.
    """

    def why(start: int, end: int) -> str | None:
        try:
            attempt(Span(start, end))
        except Refused as refused:
            if not refused.about_values:
                raise
            connection.execute("ROLLBACK TO probe")
            return refused.message
        connection.execute("RELEASE probe; SAVEPOINT probe")
        return None

    with translated("look for the records that were refused"):
        connection.execute("SAVEPOINT probe")
        found = bad_ones(span.start, span.end, why, most)
    return Poison(str(partition), found) if found else refusal


def begin_again(connection: Connection) -> None:
    """Back to before the rows that were refused: those that came before them stay, where a COPY marked the place."""
    try:
        connection.execute(sql.SQL("ROLLBACK TO {}").format(sql.Identifier(BEFORE_COPY)))
    except psycopg.errors.InvalidSavepointSpecification:
        connection.execute("ROLLBACK")
        begin(connection)
