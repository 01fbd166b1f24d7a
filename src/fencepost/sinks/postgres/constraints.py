"""Constraints that a table checks only at COMMIT: looked at with the rows, when it can still be told which is bad.

As if the transaction ended there, and then undone: the constraints stay deferred, for triggers that rely on it, and are
checked again at COMMIT. Where nothing is deferred this costs one round trip.
"""

from __future__ import annotations

from psycopg import pq

from fencepost.sinks.postgres.own_session import Connection

_CHECK = (
    "SAVEPOINT fencepost_check; SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK TO fencepost_check; RELEASE fencepost_check"
)
_CHECK_ONCE = "SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED"


def check_deferred(connection: Connection, trying: bool = False) -> None:
    """Raises what COMMIT would raise, as the driver does. Outside a transaction that has been done.

    `trying`: in one that is given up, where each row is checked once and all that can be deferred is from then on.
    """
    if connection.pgconn.transaction_status == pq.TransactionStatus.INTRANS:
        connection.execute(_CHECK_ONCE if trying else _CHECK, prepare=False)
