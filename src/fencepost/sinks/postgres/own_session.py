"""Is the session behind a connection one's own? A pooler may give each transaction another one.

What is staged in a session, and its settings, must be there in the next transaction too. So a session is marked when it
is opened, with a word that nobody else has, and each transaction looks for the mark before it does anything.
"""

from __future__ import annotations

import select
from contextlib import closing, suppress
from uuid import uuid4
from weakref import WeakKeyDictionary

import psycopg
from psycopg import pq
from psycopg.rows import TupleRow

from fencepost.errors import Usage

Connection = psycopg.Connection[TupleRow]

MARK = "fencepost.session"  # a setting that means nothing to PostgreSQL
LOOK = b"BEGIN; SELECT pg_catalog.current_setting('fencepost.session', true)"
NO_TRANSACTIONS = b"08P01"  # PgBouncer's answer to BEGIN in statement mode
PROBE_SECONDS = 5.0  # a pool with no room is not waited for

_marks: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()


def _mark(connection: Connection) -> None:
    _marks[connection] = uuid4().hex
    connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", (MARK, _marks[connection]))


def begin(connection: Connection) -> None:
    """Begin a transaction. Raises Usage, with none begun, in another session than the one that was marked."""
    wanted = _marks.get(connection)
    if wanted is None:
        connection.execute("BEGIN")
        return
    cursor = connection.execute(LOOK, prepare=False)
    cursor.nextset()
    if cursor.fetchone() != (wanted,):
        connection.execute("ROLLBACK")
        raise not_own()


def require_own(connection: Connection, dsn: str) -> None:
    """From now on `begin` holds the connection to this session.

    Raises Usage where another connection was seen to get the same session, or this one another. A session that answers
    under the process id which was told at the login needs no such look. Elsewhere there is a pooler, and what it does
    may not show today: `begin` looks on.
    """
    _mark(connection)
    if not _direct(connection):
        _compare(connection, dsn)


def _direct(connection: Connection) -> bool:
    told = connection.execute("SELECT pg_catalog.pg_backend_pid()").fetchone()
    return told == (connection.info.backend_pid,)


def _compare(connection: Connection, dsn: str) -> None:
    with suppress(psycopg.OperationalError), closing(psycopg.connect(dsn, autocommit=True, connect_timeout=5)) as other:
        if _looks(other, _marks[connection]):
            raise not_own()
        begin(connection)  # while the other one holds a session of its own
        connection.execute("ROLLBACK")


def _looks(other: Connection, wanted: str) -> bool:
    """Begin a transaction there: does it find the mark? Raises Usage where transactions are not to be had at all."""
    other.pgconn.send_query(LOOK)
    if not select.select([other.pgconn.socket], [], [], PROBE_SECONDS)[0]:
        return False
    found = False
    while (answer := other.pgconn.get_result()) is not None:
        if answer.error_field(pq.DiagnosticField.SQLSTATE) == NO_TRANSACTIONS:
            raise not_own()
        found = found or (answer.ntuples == 1 and answer.get_value(0, 0) == wanted.encode())
    return found


def not_own() -> Usage:
    return Usage(
        "PostgreSQL is reached through a pooler that gives each transaction another session: what is staged in one "
        "would be merged in another",
        "connect to PostgreSQL itself, or to a pool in session mode (PgBouncer: pool_mode = session)",
    )
