"""SQLite, as Fencepost meets it: options, capabilities, and a table that fits the rows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated

import pyarrow as pa
from pydantic import Field

from fencepost.errors import Usage
from fencepost.rules.sinks import Capabilities, WritePath
from fencepost.sinks.kind import Fit, SinkJob
from fencepost.sinks.options import SinkOptions

from .store import SqliteStore, SqliteTarget, has_table, quoted, translated


class SqliteOptions(SinkOptions):
    """A table in a file of SQLite."""

    path: Annotated[str, Field(pattern="^/")] = Field(description="of the file, absolute; its folder must be there")
    table: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]

    @property
    def name(self) -> str:
        return f"{self.path}: {self.table}"


class SqliteKind:
    """One process at a time writes: for small pipelines on one machine."""

    capabilities = Capabilities("sqlite", frozenset({WritePath.DIRECT}), atomic=True, engines=frozenset({"python"}))
    options = SqliteOptions

    def settings(self, _job: SinkJob) -> Mapping[str, str]:
        return {"sqlite transactions": "BEGIN IMMEDIATE"}

    def columns(self, _job: SinkJob, rows: pa.Schema) -> Mapping[str, str]:
        return {field.name: _type_of(field) for field in rows}

    def fit(self, job: SinkJob, rows: pa.Schema) -> Fit:
        wanted = self.columns(job, rows)
        there = _columns_of(job.options)
        if there is None:
            return Fit(wanted, exists=False)
        for name, kind in wanted.items():
            if there.get(name) != kind:
                held = f"is {there[name]} there" if name in there else "is not there"
                raise Usage(f"table {job.options.table!r}: column {name} ({kind}) {held}", "change the transform")
        return Fit(wanted, exists=True)

    def prepare(self, job: SinkJob, rows: pa.Schema) -> SqliteTarget:
        if not Path(job.options.path).parent.is_dir():
            raise Usage(f"sink.options.path: there is no folder {Path(job.options.path).parent}", "make it")
        fit, target = self.fit(job, rows), _target(job.options)
        if not fit.exists:
            columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in fit.columns.items())
            with closing(target.open()) as store, translated():
                store.connection().execute(f"CREATE TABLE IF NOT EXISTS {quoted(target.table)} ({columns})")
            self.fit(job, rows)  # another member may have made it
        return target

    def ledger(self, job: SinkJob) -> SqliteStore:
        return _target(job.options).open()


def _target(options: SqliteOptions) -> SqliteTarget:
    return SqliteTarget(options.path, options.table)


def _columns_of(options: SqliteOptions) -> dict[str, str] | None:
    """None where there is no such table."""
    if not Path(options.path).exists():
        return None
    with closing(_target(options).open()) as store, translated():
        if not has_table(store.connection(), options.table):
            return None
        found = store.connection().execute(f"PRAGMA table_info({quoted(options.table)})").fetchall()
    return {name: kind.upper() for _, name, kind, *_ in found}


def _type_of(field: pa.Field) -> str:
    """Only types whose values come back as they were. Raises Usage."""
    is_, kind = pa.types, field.type
    if is_.is_boolean(kind) or is_.is_integer(kind):
        return "INTEGER"
    if is_.is_floating(kind):
        return "REAL"
    if is_.is_binary(kind) or is_.is_large_binary(kind):
        return "BLOB"
    if is_.is_string(kind) or is_.is_large_string(kind) or is_.is_date(kind) or is_.is_decimal(kind):
        return "TEXT"
    if is_.is_timestamp(kind) and kind.unit != "ns":
        return "TEXT"
    raise Usage(f"column {field.name} is {kind}: SQLite has no such type", "cast it in the transform")


KIND = SqliteKind()
