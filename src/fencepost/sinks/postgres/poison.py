"""Which rows of a refused batch the table does not take: found by halves, in a transaction that is given up."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pyarrow as pa

from fencepost.errors import Poison, Refused
from fencepost.model import TopicPartition
from fencepost.sinks.postgres.copying import Copier
from fencepost.sinks.postgres.session import Connection, translated

MOST = 100  # that are named at once: more than that is not a bad record but a bad transform


def find_poison(
    connection: Connection, copier: Copier, rows: pa.RecordBatch, partition: TopicPartition, refusal: Refused
) -> Refused:
    """The refusal with the offsets of the rows that caused it, where the rows know where they came from.

    Leaves the transaction rolled back and begun anew, with nothing in it: the caller rolls that back too.
    """
    if "_offset" not in rows.schema.names:
        return refusal
    with translated("look for the records that were refused"):
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        found = list(_bad_rows(connection, copier, rows))
    return Poison(str(partition), found[:MOST]) if found else refusal


def _bad_rows(connection: Connection, copier: Copier, rows: pa.RecordBatch) -> Iterator[tuple[int, str]]:
    reason = _refused(connection, copier, rows)
    if reason is None:
        return
    if rows.num_rows == 1:
        yield rows.column("_offset")[0].as_py(), reason
        return
    half = rows.num_rows // 2
    found = 0
    for part in (rows.slice(0, half), rows.slice(half)):
        for bad in _bad_rows(connection, copier, part):
            yield bad
            found += 1
            if found >= MOST:
                return


def _refused(connection: Connection, copier: Copier, rows: pa.RecordBatch) -> str | None:
    """Why the table does not take these rows; None when it does. Keeps none of them."""
    connection.execute("SAVEPOINT probe")
    try:
        copier.copy(rows)
    except Refused as refusal:
        return refusal.message
    finally:
        if connection.pgconn.transaction_status in (
            psycopg.pq.TransactionStatus.INTRANS,
            psycopg.pq.TransactionStatus.INERROR,
        ):
            connection.execute("ROLLBACK TO probe")
    return None
