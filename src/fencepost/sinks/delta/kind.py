"""A Delta table, as everybody else meets it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow as pa

from fencepost.errors import Usage
from fencepost.fence import Stored
from fencepost.guarantee import Guarantee
from fencepost.model import Landed, Merge, Span, StreamBatch, Tenure, TopicPartition
from fencepost.rules.sinks import Capabilities, WritePath
from fencepost.sinks.auditing import Columns, Commit, CommitsAt, KeyOrder, LandedRows, RowsAt
from fencepost.sinks.delta import audited, dead_letters, reading
from fencepost.sinks.delta.demo import DEMO
from fencepost.sinks.delta.held import Held
from fencepost.sinks.delta.log import Log, translated, uri_of
from fencepost.sinks.delta.log_store import require_log_store
from fencepost.sinks.delta.options import DeltaOptions
from fencepost.sinks.delta.retention import log_kept, require_kept
from fencepost.sinks.delta.schema import fitted, require_features, schema_for, types_of
from fencepost.sinks.delta.store import DeltaStore
from fencepost.sinks.delta.target import DeltaTarget
from fencepost.sinks.kind import Activity, Fit, SinkJob, SparkNeeds
from fencepost.sinks.lake import commits as lake_commits

SESSION = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
# a snapshot of the log is put together by this many tasks: 50 by default, which is seconds on one machine
DEFAULTS = {"spark.databricks.delta.snapshotPartitions": "2"}


WHY = "its rows are written by Spark's own writer"


class DeltaKind:
    """Its log holds the rows and the positions: a batch is one commit."""

    capabilities = Capabilities(
        "delta",
        frozenset({WritePath.WHOLE}),
        atomic=True,
        dead_letters=True,
        engines=frozenset({"spark"}),
        why_engines=WHY,
    )
    options = DeltaOptions
    demo = DEMO

    def settings(self, _job: SinkJob) -> Mapping[str, str]:
        return SESSION

    def columns(self, _job: SinkJob, rows: pa.Schema) -> Mapping[str, str]:
        return types_of(schema_for(rows))

    def fit(self, job: SinkJob, rows: pa.Schema) -> Fit:
        options: DeltaOptions = job.options
        require_log_store(options.path, job.spark)
        table = _log(job).table()
        if table is None:
            _require_partitions(options, rows)
            return Fit(self.columns(job, rows), exists=False)
        require_features(options.path, table, options.merge is not None)
        require_kept(options.path, table)
        return Fit(fitted(options.path, rows, table, options.columns == "evolve"), exists=True)

    def prepare(self, job: SinkJob, rows: pa.Schema) -> DeltaTarget:
        if not self.fit(job, rows).exists:
            _make(job.options, rows)
            self.fit(job, rows)  # another run may have made it
        if job.dead_letters:
            dead_letters.make(job.options.path, {})
        table = audited.table_of(_log(job), job.options.path)
        return replace(target_of(job), partitioned=tuple(table.metadata().partition_columns))

    def ledger(self, job: SinkJob) -> DeltaStore:
        return target_of(job).open()

    # -- what only some can do

    def needs(self, _job: SinkJob) -> SparkNeeds:
        return SparkNeeds(("delta-spark",), SESSION, DEFAULTS)

    @contextmanager
    def frames(self, target: DeltaTarget, _spark: Any) -> Iterator[DeltaStore]:
        yield target.open()

    def expires_after(self, job: SinkJob) -> float:
        return log_kept(_log(job).table()).total_seconds()

    def last_batch(self, store: DeltaStore, pipeline: str) -> StreamBatch | None:
        return store.stream(pipeline)

    def begin_stream(self, store: DeltaStore, tenure: Tenure, first: StreamBatch) -> None:
        store.begin_stream(tenure, first)

    def begin_anew(
        self,
        store: DeltaStore,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int],
    ) -> None:
        store.begin_anew(pipeline, positions, topic_ids, kept)

    def require_no_rows(self, store: DeltaStore, pipeline: str) -> None:
        store.require_no_rows(pipeline)

    def files(self, _job: SinkJob, an_hour: int) -> str:
        return (
            f"up to {an_hour:,} files an hour, of one batch each: raise batch.every, and compact the table "
            "now and then (OPTIMIZE), which a pipeline that is running does not mind"
        )

    def with_letters(self, store: DeltaStore, letters: dead_letters.Letters) -> None:
        store.letters = letters

    def dead_letters(self, job: SinkJob) -> str:
        return dead_letters.path_for(job.options.path)

    def last_rows(self, job: SinkJob, most: int) -> tuple[list[str], list[tuple[Any, ...]]]:
        return audited.last_rows(audited.table_of(_log(job), job.options.path), most)

    def state(self, job: SinkJob) -> tuple[Stored, Activity, Guarantee | None]:
        store, held = _held(job)
        return held.stored, reading.activity(store, held, job.pipeline), reading.guarantee(held)

    def landed(
        self, store: DeltaStore, pipeline: str, runs: Collection[UUID], _first: Mapping[TopicPartition, int]
    ) -> Landed:
        return reading.landed(store.held(pipeline), runs)

    by_name = "delta:PATH"

    def named(self, *names: str) -> DeltaOptions:
        return DeltaOptions.model_construct(path=names[0])

    def what_landed(self, job: SinkJob, columns: Columns) -> LandedRows:
        return audited.what_landed(_log(job), _letters(job), job.options.path, columns)

    def key_order(self, _job: SinkJob, _merge: Merge) -> KeyOrder:
        return KeyOrder(bytewise=True)

    def positions(self, job: SinkJob) -> Stored:
        return _held(job)[1].stored

    def commits(self, job: SinkJob) -> tuple[Stored, list[Commit]]:
        store, held = _held(job)
        return held.stored, reading.commits(store, held, job.pipeline)

    def commits_at(self, job: SinkJob, at: TopicPartition, offset: int) -> CommitsAt:
        store, held = _held(job)
        commits = reading.commits(store, held, job.pipeline)
        return lake_commits.commits_at(held.stored, commits, at, offset, reading.forgets(store, held))

    def forgets(self, job: SinkJob) -> bool:
        return reading.forgets(*_held(job))

    def rows_at(self, job: SinkJob, at: TopicPartition, offset: int, firsts: bool, span: Span | None) -> RowsAt:
        path = job.options.path
        found = audited.rows_at(audited.table_of(_log(job), path), path, at, offset, firsts, span)
        return found if found.rows else replace(found, dead=audited.letter_at(_letters(job), at, offset))


def _make(options: DeltaOptions, rows: pa.Schema) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    with translated(f"make a table at {options.path}"):
        try:
            DeltaTable.create(
                uri_of(options.path), schema_for(rows), mode="ignore", partition_by=list(options.partition_by) or None
            )
        except TableNotFoundError as error:
            raise Usage(
                f"{options.path}/_delta_log holds files of a table that is gone, and no commit",
                "remove the folder, or use another one",
            ) from error


def _require_partitions(options: DeltaOptions, rows: pa.Schema) -> None:
    for name in options.partition_by:
        if name not in rows.names:
            raise Usage(
                f"partition_by {name!r} is not a column of the rows ({', '.join(rows.names)})",
                "name one of them, or add it in the transform",
            )


def _held(job: SinkJob) -> tuple[DeltaStore, Held]:
    store = target_of(job).open()
    return store, store.held(job.pipeline)


def _letters(job: SinkJob) -> Log:
    return Log(dead_letters.path_for(job.options.path), {})


def _log(job: SinkJob) -> Log:
    return Log(job.options.path, {})


def target_of(job: SinkJob) -> DeltaTarget:
    """What a writer must know, before anybody knows the rows."""
    options: DeltaOptions = job.options
    return DeltaTarget(options.path, options.merge, options.columns == "evolve", job.guarantee.value)


KIND = DeltaKind()
