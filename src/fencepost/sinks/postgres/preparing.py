"""The database of a pipeline, made ready by its owner, so that the role which runs it needs no more than it uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa

from fencepost.guarantee import Guarantee
from fencepost.sinks.kind import Prepared, SinkJob
from fencepost.sinks.postgres import dead_letters, ledger
from fencepost.sinks.postgres.columns import Column
from fencepost.sinks.postgres.connection import Connection, connect
from fencepost.sinks.postgres.grants import Grant, Kind, database_of, grant, place_of
from fencepost.sinks.postgres.options import PostgresOptions
from fencepost.sinks.postgres.reading import exists
from fencepost.sinks.postgres.table import fit_columns, located, make_table

OWN_TABLES = ("pipelines", "positions", "spans")
STREAMS = "streams"  # where the pipeline keeps state


def prepare(job: SinkJob, rows: pa.Schema, staged: bool, role: str | None) -> Prepared:
    """Make what a run would make, and give the role what a run needs. May be repeated, after a crash too.

    Raises Usage where the table that is there does not fit, Refused where the connection's own role may not do it.
    """
    options: PostgresOptions = job.options
    with closing(connect(options.dsn or "")) as connection:
        target = located(connection, options.table)
        own_tables = (*OWN_TABLES, *([STREAMS] if job.streams else ()))
        places = {table: table for table in (f"{options.ledger_schema}.{own}" for own in own_tables)}
        tables = places | dict(zip(_targets(job, options.table), _targets(job, target), strict=True))
        before = {table for table, place in tables.items() if exists(connection, *place.split("."))}
        ledger.install(connection, options.ledger_schema, job.streams)
        made_table(connection, job, target, rows)
        granted = grant(connection, role, _needed(connection, job, staged, target)) if role else []
    made, there = ([table for table in tables if (table in before) is old] for old in (False, True))
    return Prepared(job.pipeline, made, there, role, [_told(one) for one in granted])


def made_table(connection: Connection, job: SinkJob, table: str, rows: pa.Schema) -> tuple[Column, ...]:
    """The columns of the target, which is made where it is not there yet; and a table for dead letters beside it.

    Raises Usage where what is there does not fit.
    """
    columns, _ = fit_columns(connection, table, rows, job.options.key)
    make_table(connection, table, columns, job.options.key)
    if job.dead_letters:
        make_table(connection, dead_letters.table_for(table), dead_letters.COLUMNS)
    return columns


def _told(one: Grant) -> dict[str, Any]:
    return {"on": one.kind.value, "name": ".".join(one.name), "rights": list(one.privileges)}


def _targets(job: SinkJob, table: str) -> list[str]:
    return [table, dead_letters.table_for(table)] if job.dead_letters else [table]


def _needed(connection: Connection, job: SinkJob, staged: bool, table: str) -> Iterator[Grant]:
    """All that a run asks for, no more: docs/security.md has the same as a table."""
    options, schema = job.options, job.options.ledger_schema
    looks_again = job.guarantee is Guarantee.AT_LEAST_ONCE  # for rows that a unique index has already
    temporary = ("TEMPORARY",) if options.merge or looks_again else ()
    yield Grant(Kind.DATABASE, (database_of(connection),), ("CONNECT", *temporary))
    yield Grant(Kind.SCHEMA, (schema,), ("USAGE", "CREATE") if staged else ("USAGE",))
    yield Grant(Kind.TABLE, (schema, "pipelines"), ("SELECT", "INSERT", "UPDATE"))
    yield Grant(Kind.TABLE, (schema, "positions"), ("SELECT", "INSERT", "UPDATE"))
    yield Grant(Kind.TABLE, (schema, "spans"), ("SELECT", "INSERT", "UPDATE", "DELETE"))
    if job.streams:
        yield Grant(Kind.TABLE, (schema, STREAMS), ("SELECT", "INSERT", "UPDATE"))
    target = place_of(connection, table)
    yield Grant(Kind.SCHEMA, target[:1], ("USAGE",))
    yield Grant(Kind.TABLE, target, _of_the_target(options))
    if job.dead_letters:
        yield Grant(Kind.TABLE, place_of(connection, dead_letters.table_for(table)), ("INSERT",))


def _of_the_target(options: PostgresOptions) -> tuple[str, ...]:
    changed = ("UPDATE",) if options.mode == "upsert" else ()
    return ("SELECT", "INSERT", *changed, *(("DELETE",) if options.tombstones == "delete" else ()))
