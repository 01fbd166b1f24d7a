"""PostgreSQL, as everybody else meets it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import pyarrow as pa

from fencepost.errors import Usage
from fencepost.fence import Stored
from fencepost.guarantee import Guarantee
from fencepost.model import Landed, Merge, Span, StreamBatch, Tenure, TopicPartition
from fencepost.rules.sinks import Capabilities, WritePath
from fencepost.sinks.auditing import Columns, Commit, CommitsAt, KeyOrder, LandedRows, RowsAt
from fencepost.sinks.handlers import Attempt
from fencepost.sinks.kind import Activity, Fit, Prepared, SinkJob
from fencepost.sinks.knowing import CommitsOver, KnownPipeline, TimedCommit
from fencepost.sinks.postgres import audited, dead_letters, knowing, ledger, preparing, receipts
from fencepost.sinks.postgres.columns import columns_for
from fencepost.sinks.postgres.committed import committed
from fencepost.sinks.postgres.connection import WRITER_SETTINGS, Connection, connect
from fencepost.sinks.postgres.demo import DEMO
from fencepost.sinks.postgres.handlers import HandlerTarget, HandlerWork
from fencepost.sinks.postgres.key_order import read_order
from fencepost.sinks.postgres.last_rows import last_rows
from fencepost.sinks.postgres.lenient_values import read_leniently
from fencepost.sinks.postgres.options import PostgresOptions
from fencepost.sinks.postgres.reading import activity, exists, last_guarantee, last_seen, reader, stored_spans
from fencepost.sinks.postgres.repeated import PLACE
from fencepost.sinks.postgres.stage import require_right
from fencepost.sinks.postgres.staging import Staging
from fencepost.sinks.postgres.store import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.table import fit_columns, located, require_temporary, unique_indexes


class PostgresKind:
    """A table; positions and spans are in tables of ours in the same database."""

    capabilities = Capabilities(
        "postgres", frozenset({WritePath.DIRECT, WritePath.STAGED}), atomic=True, dead_letters=True
    )
    options = PostgresOptions
    demo = DEMO

    def settings(self, _job: SinkJob) -> Mapping[str, str]:
        return {f"postgresql {name}": value for name, value in WRITER_SETTINGS.items()}

    def columns(self, _job: SinkJob, rows: pa.Schema) -> Mapping[str, str]:
        return {column.name: column.type for column in columns_for(rows)}

    def fit(self, job: SinkJob, rows: pa.Schema) -> Fit:
        options: PostgresOptions = job.options
        with reader(dsn_of(options)) as connection:
            require_temporary(connection, options.key)
            columns, there = fit_columns(connection, options.table, rows, options.key)
            indexes = unique_indexes(connection, options.table) if there and not options.merge else []
        types = {column.name: column.type for column in columns}
        return Fit(types, there, _limits(job, indexes, told=set(PLACE) <= types.keys()))

    def prepare(self, job: SinkJob, rows: pa.Schema) -> PostgresSettings:
        plain = settings_of(job)
        with closing(PostgresStore(plain)) as store:
            require_temporary(store.connection(), job.options.key)
            table = located(store.connection(), plain.table)
            columns = preparing.made_table(store.connection(), job, table, rows)
        return replace(plain, table=table, columns=columns)

    def ledger(self, job: SinkJob) -> PostgresStore:
        return PostgresStore(settings_of(job))

    # -- what only some can do

    def require_stage(self, job: SinkJob, node: str) -> None:
        with closing(connect(dsn_of(job.options))) as connection:
            require_right(connection, job.options.ledger_schema, node)

    def staging(self, target: PostgresSettings, tenure: Tenure, provenance: bool) -> AbstractContextManager[Staging]:
        return Staging.opened(target, tenure, provenance)

    def last_batch(self, store: PostgresStore, pipeline: str) -> StreamBatch | None:
        return store.stream(pipeline)

    def begin_stream(self, store: PostgresStore, tenure: Tenure, first: StreamBatch) -> None:
        store.begin_stream(tenure, first)

    def begin_anew(
        self,
        store: PostgresStore,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int],
    ) -> None:
        store.set_positions(pipeline, positions, topic_ids, kept, anew=True)

    def require_no_rows(self, store: PostgresStore, pipeline: str) -> None:
        ledger.require_no_rows(store.connection(), pipeline, store.settings.table)

    def dead_letters(self, job: SinkJob) -> str:
        return dead_letters.table_for(job.options.table)

    def last_rows(self, job: SinkJob, most: int) -> tuple[list[str], list[tuple[Any, ...]]]:
        options: PostgresOptions = job.options
        with reader(dsn_of(options)) as connection:
            if not exists(connection, *options.table.split(".")):
                raise Usage(f"there is no table {options.table!r}", "has the pipeline run?")
            read_leniently(connection)
            return last_rows(connection, options.table, most)

    def prepare_for(self, job: SinkJob, rows: pa.Schema, staged: bool, role: str | None) -> Prepared:
        return preparing.prepare(job, rows, staged, role)

    def last_seen(self, job: SinkJob) -> float | None:
        with reader(dsn_of(job.options)) as connection:
            return last_seen(connection, job.options.ledger_schema, job.pipeline)

    @contextmanager
    def watch(self, own: PostgresSettings, tenure: Tenure) -> Iterator[Callable[[], object]]:
        with closing(PostgresStore(own)) as store:

            def look() -> None:
                ledger.require_own(store.connection(), own.schema, tenure, tenure.token)
                ledger.heartbeat(store.connection(), own.schema, own.pipeline)
                store.fold(tenure.positions)

            yield look

    def handler_target(
        self, dsn: str, pipeline: str, handler: Callable[[Any, Any], object], call: Callable[[Attempt, Any], object]
    ) -> HandlerTarget:
        return HandlerTarget(PostgresSettings(dsn, pipeline, "", (), members=True), HandlerWork(handler, call))

    by_name = "postgres:TABLE"

    def named(self, *names: str) -> PostgresOptions:
        return PostgresOptions.model_construct(table=names[0])

    def what_landed(self, job: SinkJob, columns: Columns) -> LandedRows:
        return audited.what_landed(job.options.dsn or "", job.options.table, columns)

    def key_order(self, job: SinkJob, merge: Merge) -> KeyOrder:
        with _reader(job) as connection:
            return read_order(connection, job.options.table, merge)

    def positions(self, job: SinkJob) -> Stored:
        with _reader(job) as connection:
            return ledger.read(connection, job.options.ledger_schema, job.pipeline)

    def commits(self, job: SinkJob) -> tuple[Stored, list[Commit]]:
        where = (job.options.ledger_schema, job.pipeline)
        with _reader(job) as connection:
            stored = ledger.read(connection, *where)
            return stored, [receipts.commit_of(one) for one in stored_spans(connection, *where)]

    def commits_at(self, job: SinkJob, at: TopicPartition, offset: int) -> CommitsAt:
        with _reader(job) as connection:
            return receipts.commits_at(connection, job.options.ledger_schema, job.pipeline, at, offset)

    def rows_at(self, job: SinkJob, at: TopicPartition, offset: int, firsts: bool, span: Span | None) -> RowsAt:
        with _reader(job) as connection:
            return receipts.rows_at(connection, job.options.table, at, offset, firsts, span)

    def state(self, job: SinkJob) -> tuple[Stored, Activity, Guarantee | None]:
        where = (job.options.ledger_schema, job.pipeline)
        with reader(dsn_of(job.options)) as connection:
            word = last_guarantee(connection, *where)
            return ledger.read(connection, *where), activity(connection, *where), Guarantee(word) if word else None

    def pipelines(self, where: str) -> list[KnownPipeline]:
        with reader(where) as connection:
            return knowing.known_pipelines(connection)

    def commits_over(self, where: str, one: KnownPipeline, at: TopicPartition, span: Span) -> CommitsOver:
        with reader(where) as connection:
            return knowing.commits_over(connection, one, at, span)

    def commits_since(self, where: str, one: KnownPipeline, since: datetime) -> list[TimedCommit]:
        with reader(where) as connection:
            return knowing.commits_since(connection, one, since)

    def landed(
        self, store: PostgresStore, pipeline: str, runs: Collection[UUID], first: Mapping[TopicPartition, int]
    ) -> Landed:
        return committed(store.connection(), store.settings.schema, pipeline, runs, first)


def _reader(job: SinkJob) -> AbstractContextManager[Connection]:
    """Where the file does not say where, libpq's own variables do."""
    return reader(job.options.dsn or "")


def dsn_of(options: PostgresOptions) -> str:
    """Raises Usage where the file does not say."""
    if options.dsn is None:
        raise Usage("sink.options.dsn is not set", "set it, or start the local stack with `fencepost up`")
    return options.dsn


def settings_of(job: SinkJob) -> PostgresSettings:
    """What a writer must know, before anybody knows the rows."""
    options: PostgresOptions = job.options
    return PostgresSettings(
        dsn_of(options),
        job.pipeline,
        options.table,
        (),
        options.ledger_schema,
        job.shared,
        options.merge,
        job.guarantee.value,
        options.ledger_retention,
        job.most_bad,
        job.streams,
    )


def _limits(job: SinkJob, indexes: list[str], told: bool) -> list[str]:
    """What it means to add rows to a table that may refuse one because of another. `told`: rows know their place."""
    if not indexes:
        return []
    said = (
        f"mode: append into a table with a unique index ({', '.join(indexes)}): a second row of a key is a bad record"
    )
    if job.guarantee is not Guarantee.AT_LEAST_ONCE:
        return [f"{said}; nothing else is repeated under {job.guarantee}"]
    if told:
        return [f"{said}; rows that exist already after a crash, equal in every column, are left out"]
    return [f"{said}, and so are rows that exist already after a crash: use mode: dedupe"]


KIND = PostgresKind()
