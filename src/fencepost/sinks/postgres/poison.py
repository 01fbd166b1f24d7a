"""Which rows of a refused batch the table does not take: found by halves, in a transaction that is given up."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from psycopg.pq import TransactionStatus

from fencepost.errors import Poison, Refused
from fencepost.halving import bad_ones
from fencepost.model import Span, TopicPartition
from fencepost.sinks.postgres.copying import Copier
from fencepost.sinks.postgres.session import Connection, translated

MOST = 100  # that are named at once


def find_poison(connection: Connection, copier: Copier, partition: TopicPartition, refusal: Refused) -> Refused:
    """The copier's refusal with the offsets of the rows that caused it, where the rows know where they came from.

    Leaves the transaction begun anew with nothing in it: the caller rolls that back too.
    """
    rows = pa.concat_batches(copier.refused)
    if "_offset" not in rows.schema.names:
        return refusal

    def attempt(part: Span) -> None:
        copier.copy(rows.slice(part.start, part.end - part.start))

    found = _search(connection, Span(0, rows.num_rows), attempt)
    offsets = rows.column("_offset")
    return Poison(str(partition), [(offsets[row].as_py(), reason) for row, reason in found]) if found else refusal


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
