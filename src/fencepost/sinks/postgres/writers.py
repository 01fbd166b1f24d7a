"""Sessions of earlier runs: ended where a takeover needs what they hold, and named where it may not end them.

Anybody may give his session any name. So a name only says which sessions of our own roles are meant, and nothing is
refused because of one: only because of a lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from fencepost.errors import FencepostError, Refused, Unreachable
from fencepost.model import Tenure
from fencepost.sinks.postgres.connection import Connection, statement, table_name, translated, writer_name

PATIENCE = 5.0  # seconds for somebody else's transaction to end: a healthy one takes milliseconds
_LOOK_EVERY = 0.1

# Of this database only: names are told apart by the ledger's schema.
_FIND = """
SELECT pid FROM pg_catalog.pg_stat_activity
WHERE application_name = %(name)s AND datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid()
  AND pg_catalog.pg_has_role(usesysid, 'USAGE') AND (%(pid)s::integer IS NULL OR pid = %(pid)s)
"""
_END = "SELECT pg_catalog.pg_terminate_backend(%(pid)s, 5000) WHERE EXISTS ({found})"


def end_writers(connection: Connection, schema: str, pipeline: str) -> None:
    """End the connections of earlier runs: a stopped one may hold a row that the takeover needs."""
    ours = {"name": writer_name(pipeline, schema), "pid": None}
    end = sql.SQL(_END).format(found=sql.SQL(_FIND))
    with translated("end the writers of earlier runs"):
        for (pid,) in connection.execute(_FIND, ours).fetchall():
            one = {**ours, "pid": pid}
            try:
                connection.execute(end, one)
            except psycopg.errors.InsufficientPrivilege:  # a superuser's: it matters only if it holds something
                continue
            if connection.execute(_FIND, one).fetchone():
                raise Unreachable(f"the connection {pid} of an earlier run does not end", "check what blocks it")


_STUCK = """
SELECT pg_catalog.pg_terminate_backend(writer.pid, 5000)
FROM pg_catalog.pg_stat_activity AS writer JOIN pg_catalog.pg_locks AS held USING (pid)
WHERE writer.application_name = %s AND writer.datname = pg_catalog.current_database()
  AND pg_catalog.pg_has_role(writer.usesysid, 'USAGE')
  AND held.relation IN (pg_catalog.to_regclass(%s)::pg_catalog.oid, pg_catalog.to_regclass(%s)::pg_catalog.oid)
  AND held.mode = 'RowExclusiveLock' AND held.granted AND writer.state = 'idle in transaction'
  AND pg_catalog.clock_timestamp() - writer.state_change > interval '2 seconds'
"""


def end_stuck_writers(connection: Connection, schema: str, pipeline: str, merged: str | None = None) -> None:
    """End only those that stand between compare-and-set and COMMIT, and hold a row that the takeover needs.

    The others are members of the same group, at work on partitions of their own. `merged`: a table into which rows
    are merged, whose writers never idle between that and COMMIT either.
    """
    positions = sql.Identifier(schema, "positions").as_string(connection)
    table = table_name(merged).as_string(connection) if merged else positions
    with translated("end members that are stuck"):
        connection.execute(_STUCK, (writer_name(pipeline, schema), positions, table))


# -- who holds what a takeover needs


@dataclass(frozen=True)
class LockHolder:
    """A session with a lock on rows or tables of the ledger."""

    pid: int
    role: str
    endable: bool  # by us

    def __str__(self) -> str:
        return f"{self.role!r} (pid {self.pid})"


# A row's xmax is the transaction that has locked it.
_ROW_HOLDERS = """
SELECT DISTINCT lock.pid, activity.usename::pg_catalog.text, pg_catalog.pg_has_role(activity.usesysid, 'USAGE')
FROM pg_catalog.pg_locks AS lock JOIN pg_catalog.pg_stat_activity AS activity USING (pid)
WHERE lock.locktype = 'transactionid' AND lock.mode = 'ExclusiveLock' AND lock.granted
  AND lock.pid <> pg_catalog.pg_backend_pid() AND lock.transactionid IN (
    SELECT held.xmax FROM {schema}.pipelines AS held WHERE held.pipeline = %(pipeline)s
    UNION SELECT held.xmax FROM {schema}.positions AS held
    WHERE held.pipeline = %(pipeline)s AND (held.topic, held.partition) IN (SELECT * FROM ROWS FROM (
        pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[])
    ))
  )
ORDER BY lock.pid
"""

# Table locks that keep rows from being changed, or from being read.
_TABLE_HOLDERS = """
SELECT DISTINCT lock.pid, activity.usename::pg_catalog.text, pg_catalog.pg_has_role(activity.usesysid, 'USAGE')
FROM pg_catalog.pg_locks AS lock JOIN pg_catalog.pg_stat_activity AS activity USING (pid)
WHERE lock.locktype = 'relation' AND lock.granted AND lock.pid <> pg_catalog.pg_backend_pid()
  AND lock.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  AND lock.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
  AND lock.relation = ANY(%s::pg_catalog.regclass[]::pg_catalog.oid[])
ORDER BY lock.pid
"""


def holders(connection: Connection, schema: str, wanted: Tenure) -> list[LockHolder]:
    """Who holds rows of the ledger that a takeover of these partitions needs, at this moment. Waits for nobody."""
    values = {
        "pipeline": wanted.pipeline,
        "topics": [at.topic for at in wanted.positions],
        "partitions": [at.partition for at in wanted.positions],
    }
    tables = [sql.Identifier(schema, table).as_string(connection) for table in ("positions", "pipelines")]
    with translated("see who holds the ledger"):
        found = connection.execute(_TABLE_HOLDERS, (tables,)).fetchall()
        if not found:  # else the tables might not be readable
            found = connection.execute(statement(_ROW_HOLDERS, schema), values).fetchall()
    return [LockHolder(*row) for row in found]


def require_free(connection: Connection, schema: str, wanted: Tenure) -> None:
    """Refused where somebody whom we may not end holds what the takeover needs, and keeps it. Outside a transaction."""
    deadline = time.monotonic() + PATIENCE
    while strangers := [one for one in holders(connection, schema, wanted) if not one.endable]:
        if time.monotonic() > deadline:
            raise _held(wanted.pipeline, strangers)
        time.sleep(_LOOK_EVERY)


@contextmanager
def naming_holders(connection: Connection, schema: str, wanted: Tenure) -> Iterator[None]:
    """Around the takeover's transaction: a lock that was not to be had is told with who has it."""
    try:
        yield
    except Unreachable as trouble:
        in_the_way = isinstance(trouble.__cause__, psycopg.errors.LockNotAvailable)
        if in_the_way and (found := holders(connection, schema, wanted)):
            raise _held(wanted.pipeline, found) from trouble
        raise


def _held(pipeline: str, found: list[LockHolder]) -> FencepostError:
    who, pids = ", ".join(map(str, found)), ", ".join(str(one.pid) for one in found)
    said = f"positions of {pipeline!r} are locked by {who}"
    if all(one.endable for one in found):
        return Unreachable(said, "wait for that transaction, or end it")
    ended = "; ".join(f"SELECT pg_catalog.pg_terminate_backend({one.pid})" for one in found)
    return Refused(
        f"{said}; this role may not terminate it",
        f"run as the same role, or have that role or an administrator end the connection {pids}: {ended}",
    )
