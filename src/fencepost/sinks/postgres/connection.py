"""One connection to PostgreSQL, and the seam where the driver's errors become ours."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import LiteralString

import psycopg
from psycopg import conninfo, pq, sql
from psycopg.rows import TupleRow

from fencepost.errors import FencepostError, Refused, Unknown, Unreachable, Usage
from fencepost.sinks.postgres import own_session

Connection = psycopg.Connection[TupleRow]

# SQLSTATE classes in which the same rows would fail again; anything else may pass after a wait
REFUSALS = {
    "0A": "not supported",
    "21": "cardinality",
    "22": "a value does not fit",
    "23": "a constraint is violated",
    "28": "login failed",
    "3D": "no such database",
    "3F": "no such schema",
    "42": "no such table or column, or no right to it",
    "44": "a view does not take the row",
    "54": "a value is too large or too deep for an index, a page or a document",
    "P0": "a trigger said no",
    "XX": "internal error",
}
ABOUT_VALUES = ("22", "23", "44", "54")  # of these only some rows may be to blame
# What PostgreSQL says of a binary COPY whose columns have other types there by now: of no row in particular.
OTHER_TYPES = ("08P01", "22P03", "22P04")

REMEDY = "see whether it runs and can be reached"
REMEDIES = {
    "25006": "this is a standby, or default_transaction_read_only is on for the role or the database: "
    "connect to the primary (target_session_attrs=read-write), or set it to off",
    "42501": "its owner grants it: docs/security.md has it by command. All that a run needs: with the pipeline's file "
    "and another DSN `fencepost init --db --role NAME`",
    "53100": "make room on the disk of PostgreSQL: the run waits for that, and goes on by itself",
    "53300": "end connections that nobody needs, or raise max_connections",
}

WRITER_SETTINGS = {
    "lock_timeout": "30s",  # a stopped attempt of our own must not block us for ever
    "idle_in_transaction_session_timeout": "10min",
    "statement_timeout": "0",  # a role's own would end a long COPY, again and again
    "idle_session_timeout": "0",
    "default_transaction_isolation": "read committed",
    "datestyle": "ISO",
    "timezone": "UTC",
}
SINCE_17 = {"transaction_timeout": "0"}  # PostgreSQL's version: before that it knows of no such setting

KEEPALIVE = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def writer_name(pipeline: str, schema: str) -> str:
    """The application_name of a pipeline's writers: PostgreSQL cuts names at 63 bytes, so it is a hash.

    `schema`: the ledger's. A pipeline of the same name that keeps its positions elsewhere is another one.
    """
    return f"fencepost:{short_hash(schema, pipeline)}"


def short_hash(*names: str) -> str:
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:16]


_SET = """
SELECT pg_catalog.set_config(name, value, false)
FROM ROWS FROM (pg_catalog.unnest(%s::pg_catalog.text[]), pg_catalog.unnest(%s::pg_catalog.text[]))
  AS setting (name, value)
"""
_PATH = "SELECT pg_catalog.current_schemas(true), pg_catalog.current_schemas(false)"
CATALOG = "pg_catalog"


def look_first_in_catalog(connection: Connection) -> None:
    """Operators mean PostgreSQL's own. A `search_path` that names pg_catalog after others is the exception to that.

    The rest of the path stays as it is: triggers and functions of the table's owner may rely on it.
    """
    with translated("see the search_path"):
        effective, named = connection.execute(_PATH).fetchone() or ([CATALOG], [])
        if next(name for name in effective if not name.startswith("pg_temp")) != CATALOG:
            path = sql.SQL(", ").join(sql.Identifier(name) for name in named if name != CATALOG)
            connection.execute("SELECT pg_catalog.set_config('search_path', %s, false)", (path.as_string(connection),))


def connect(dsn: str) -> Connection:
    """A connection in autocommit; transactions are begun and ended by name.

    Raises Usage where a pooler gives each transaction another session.
    """
    require_dsn(dsn)
    with translated("connect to PostgreSQL"):
        connection = psycopg.connect(dsn, autocommit=True, application_name="fencepost", **KEEPALIVE)  # type: ignore[arg-type]
        try:
            own_session.require_own(connection, dsn)  # before anything is set that others might find
            settings = WRITER_SETTINGS | (SINCE_17 if connection.info.server_version >= 170_000 else {})
            connection.execute(_SET, (list(settings), list(settings.values())))
            look_first_in_catalog(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def require_dsn(dsn: str) -> None:
    """Raises Usage for a connection string that is taken apart wrongly: libpq's message shows its parts.

    That happens to a URL whose password holds `@`, `/` or `:` as they are.
    """
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        parts = {"host": "@"}
    port = str(parts.get("port", "")).replace(",", "")
    if "@" in str(parts.get("host", "")) or not (port.isdigit() or not port):
        raise Usage(
            "the connection string of PostgreSQL cannot be read",
            "write key=value pairs, or a URL in which a password's @ is %40, / is %2F, : is %3A and % is %25",
        )


def mark_as_writer(connection: Connection, pipeline: str, schema: str) -> None:
    """From now on the pipeline's next owner may end this connection."""
    with translated("begin to write"):
        connection.execute(
            "SELECT pg_catalog.set_config('application_name', %s, false)", (writer_name(pipeline, schema),)
        )


@contextmanager
def translated(doing: str, answer_matters: bool = False) -> Iterator[None]:
    """Turn the driver's errors into ours. `answer_matters`: without an answer it may have happened."""
    try:
        yield
    except psycopg.Error as error:
        raise _translate(error, doing, answer_matters) from error


def _translate(error: psycopg.Error, doing: str, answer_matters: bool) -> FencepostError:
    message = " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())  # libpq likes lines
    state = error.sqlstate or ""
    if answer_matters and (not state or state.startswith(("57", "08"))):
        return Unknown(f"PostgreSQL gave no answer to {doing}: {message}")
    if state[:2] in REFUSALS or state in OTHER_TYPES:
        detail = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
        about_values = state[:2] in ABOUT_VALUES and state not in OTHER_TYPES
        said = f"PostgreSQL refused to {doing}: {message}{detail}"
        return Refused(said, REMEDIES.get(state, ""), about_values=about_values)
    return Unreachable(f"PostgreSQL could not {doing}: {message}", REMEDIES.get(state, REMEDY))


@contextmanager
def transaction(connection: Connection) -> Iterator[Connection]:
    """Begin; then commit on a clean exit, roll back on an exception."""
    with translated("begin a transaction"):
        own_session.begin(connection)
    try:
        yield connection
    except BaseException:
        _roll_back(connection)
        raise
    _commit(connection)


def _roll_back(connection: Connection) -> None:
    """Leave the transaction. In the middle of a COPY, or on a broken line, that means leaving the connection."""
    if connection.pgconn.transaction_status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR):
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()
    elif connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
        connection.close()


def _commit(connection: Connection) -> None:
    """Raises Unknown when no answer comes; a transaction that had failed before says so here at the latest."""
    with translated("commit", answer_matters=True):
        answer = connection.execute("COMMIT").statusmessage
    if answer != "COMMIT":
        raise Refused(f"PostgreSQL rolled back instead of committing: it answered {answer}")


def table_name(table: str) -> sql.Identifier:
    """`orders` or `shop.orders`, quoted by the driver."""
    return sql.Identifier(*table.split("."))


def copy_statement(table: str, columns: list[str]) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(table_name(table), names)


@cache
def statement(text: LiteralString, schema: str) -> sql.Composed:
    """One of our own statements, with the ledger's schema filled in."""
    return sql.SQL(text).format(schema=sql.Identifier(schema))


_SECRET = b"*"  # how libpq marks what no dialog may show
_KEYS = {"scram_client_key", "scram_server_key"}  # which it marks otherwise


def without_secrets(dsn: str) -> tuple[str, dict[str, str]]:
    """The connection string as everybody may see it, and what was taken out."""
    parts = {name: str(value) for name, value in conninfo.conninfo_to_dict(dsn).items()}
    names = _KEYS | {option.keyword.decode() for option in pq.Conninfo.get_defaults() if option.dispchar == _SECRET}
    secrets = {name: value for name, value in parts.items() if name in names}
    if not secrets:
        return dsn, {}
    return conninfo.make_conninfo("", **{name: value for name, value in parts.items() if name not in names}), secrets
