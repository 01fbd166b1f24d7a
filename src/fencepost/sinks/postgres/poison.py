"""Which rows of a refused batch the table does not take: found by halves, in a transaction that is given up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from psycopg.pq import TransactionStatus

from fencepost.errors import Poison, Refused
from fencepost.halving import bad_ones
from fencepost.model import Span, TopicPartition
from fencepost.sinks.postgres.copying import Copier
from fencepost.sinks.postgres.session import Connection, translated

MOST = 100  # that are named at once


def find_poison(connection: Connection, copier: Copier, partition: TopicPartition | None, refusal: Refused) -> Refused:
    """The copier's refusal with the offsets of the rows that caused it, where the rows know where they came from.

    `partition`: None where rows came from several, and say themselves which. Leaves the transaction begun anew with
    nothing in it: the caller rolls that back too.
    """
    rows = pa.concat_batches(copier.refused)
    if "_offset" not in rows.schema.names:
        return refusal

    def attempt(part: Span) -> None:
        copier.copy(rows.slice(part.start, part.end - part.start))

    found = _search(connection, Span(0, rows.num_rows), attempt)
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
    connection: Connection, partition: TopicPartition, span: Span, attempt: Callable[[Span], None], refusal: Refused
) -> Refused:
    """The same for rows that are in the database already: `attempt` tries those of some offsets."""
    found = _search(connection, span, attempt)
    return Poison(str(partition), found) if found else refusal


def _search(connection: Connection, whole: Span, attempt: Callable[[Span], None]) -> list[tuple[int, str]]:
    def why(start: int, end: int) -> str | None:
        return _refused(connection, lambda: attempt(Span(start, end)))

    with translated("look for the records that were refused"):
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        return bad_ones(whole.start, whole.end, why, MOST)


def _refused(connection: Connection, attempt: Callable[[], None]) -> str | None:
    """Why the table does not take these rows; None when it does. Keeps none of them."""
    connection.execute("SAVEPOINT probe")
    try:
        attempt()
    except Refused as refusal:
        return refusal.message
    finally:
        if connection.pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            connection.execute("ROLLBACK TO probe")
    return None
