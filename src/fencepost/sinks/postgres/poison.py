"""Which rows of a refused batch the table does not take: found by halves, in a transaction that is given up."""

from __future__ import annotations

import pyarrow as pa
from psycopg.pq import TransactionStatus

from fencepost.errors import Poison, Refused
from fencepost.halving import bad_ones
from fencepost.model import TopicPartition
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

    def why(start: int, end: int) -> str | None:
        return _refused(connection, copier, rows.slice(start, end - start))

    with translated("look for the records that were refused"):
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        found = bad_ones(0, rows.num_rows, why, MOST)
    offsets = rows.column("_offset")
    return Poison(str(partition), [(offsets[row].as_py(), reason) for row, reason in found]) if found else refusal


def _refused(connection: Connection, copier: Copier, rows: pa.RecordBatch) -> str | None:
    """Why the table does not take these rows; None when it does. Keeps none of them."""
    connection.execute("SAVEPOINT probe")
    try:
        copier.copy(rows)
    except Refused as refusal:
        return refusal.message
    finally:
        if connection.pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            connection.execute("ROLLBACK TO probe")
    return None
