"""The database of a pipeline, made ready by its owner, so that the role which runs it needs no more than it uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from fencepost.admin.plan import trial
from fencepost.guarantee import Guarantee
from fencepost.rows.shape import Preview
from fencepost.rules.sinks import require_key
from fencepost.sinks.postgres import dead_letters, ledger
from fencepost.sinks.postgres.connection import Connection, connect
from fencepost.sinks.postgres.grants import Grant, Kind, database_of, grant, place_of
from fencepost.sinks.postgres.reading import exists
from fencepost.sinks.postgres.table import fit_columns, located, make_table
from fencepost.spec import OnError, PipelineSpec, PostgresOptions

OWN_TABLES = ("pipelines", "positions", "spans")


@dataclass(frozen=True)
class Prepared:
    """What was done, and what was there already."""

    pipeline: str
    made: list[str]
    there: list[str]
    role: str | None
    granted: list[Grant]


def prepare(spec: PipelineSpec, role: str | None) -> Prepared:
    """Make what a run would make, and give the role what a run needs. May be repeated, after a crash too.

    Raises Usage where the table that is there does not fit, Refused where the connection's own role may not do it.
    """
    options = spec.postgres
    seen = trial(spec)
    require_key(options.merge, seen.columns.names, seen.provenance)
    with closing(connect(options.dsn or "")) as connection:
        target = located(connection, options.table)
        places = {table: table for table in (f"{options.ledger_schema}.{own}" for own in OWN_TABLES)}
        tables = places | dict(zip(_targets(spec, options.table), _targets(spec, target), strict=True))
        before = {table for table, place in tables.items() if exists(connection, *place.split("."))}
        ledger.install(connection, options.ledger_schema)
        columns, _ = fit_columns(connection, target, seen.columns, options.key)
        make_table(connection, target, columns, options.key)
        if spec.on_error is OnError.DEAD_LETTER:
            make_table(connection, dead_letters.table_for(target), dead_letters.COLUMNS)
        granted = grant(connection, role, _needed(connection, spec, seen, target)) if role else []
    made = [table for table in tables if table not in before]
    return Prepared(spec.name, made, [table for table in tables if table in before], role, granted)


def _targets(spec: PipelineSpec, table: str) -> list[str]:
    return [table, dead_letters.table_for(table)] if spec.on_error is OnError.DEAD_LETTER else [table]


def _needed(connection: Connection, spec: PipelineSpec, seen: Preview, table: str) -> Iterator[Grant]:
    """All that a run asks for, no more: docs/security.md has the same as a table."""
    options, schema = spec.postgres, spec.postgres.ledger_schema
    looks_again = spec.guarantee is Guarantee.AT_LEAST_ONCE  # for rows that a unique index has already
    temporary = ("TEMPORARY",) if options.merge or looks_again else ()
    yield Grant(Kind.DATABASE, (database_of(connection),), ("CONNECT", *temporary))
    yield Grant(Kind.SCHEMA, (schema,), ("USAGE", "CREATE") if seen.wide_node else ("USAGE",))
    yield Grant(Kind.TABLE, (schema, "pipelines"), ("SELECT", "INSERT", "UPDATE"))
    yield Grant(Kind.TABLE, (schema, "positions"), ("SELECT", "INSERT", "UPDATE"))
    yield Grant(Kind.TABLE, (schema, "spans"), ("SELECT", "INSERT", "UPDATE", "DELETE"))
    target = place_of(connection, table)
    yield Grant(Kind.SCHEMA, target[:1], ("USAGE",))
    yield Grant(Kind.TABLE, target, _of_the_target(options))
    if spec.on_error is OnError.DEAD_LETTER:
        yield Grant(Kind.TABLE, place_of(connection, dead_letters.table_for(table)), ("INSERT",))


def _of_the_target(options: PostgresOptions) -> tuple[str, ...]:
    changed = ("UPDATE",) if options.mode == "upsert" else ()
    return ("SELECT", "INSERT", *changed, *(("DELETE",) if options.tombstones == "delete" else ()))
