"""An Iceberg table, as everybody else meets it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from fencepost.fence import Stored
from fencepost.guarantee import Guarantee
from fencepost.model import Landed, Merge, Span, StreamBatch, Tenure, TopicPartition
from fencepost.rules.sinks import Capabilities, WritePath
from fencepost.sinks.auditing import Columns, Commit, CommitsAt, KeyOrder, LandedRows, RowsAt
from fencepost.sinks.iceberg import audited, catalog, dead_letters, making, reading
from fencepost.sinks.iceberg.demo import DEMO
from fencepost.sinks.iceberg.options import IcebergOptions
from fencepost.sinks.iceberg.schema import fitted, in_table, lacking, require_partitions, types_of
from fencepost.sinks.iceberg.table import IcebergTarget
from fencepost.sinks.kind import Activity, Fit, SinkJob, SparkNeeds
from fencepost.sinks.lake.commits import commits_at
from fencepost.sinks.lake.store import LakeStore, Letters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


WHY = "its rows are written by Spark's own writer"


class IcebergKind:
    """Rows and positions are published by one commit; a property of the table holds the positions."""

    capabilities = Capabilities(
        "iceberg",
        frozenset({WritePath.WHOLE}),
        atomic=True,
        dead_letters=True,
        engines=frozenset({"spark"}),
        why_engines=WHY,
    )
    options = IcebergOptions
    demo = DEMO

    def settings(self, _job: SinkJob) -> Mapping[str, str]:
        return {"iceberg commit": "one attempt, against the metadata that was compared"}

    def columns(self, _job: SinkJob, rows: pa.Schema) -> Mapping[str, str]:
        return types_of(in_table(rows))

    def fit(self, job: SinkJob, rows: pa.Schema) -> Fit:
        options: IcebergOptions = job.options
        table = catalog.load(options, job.spark)
        if table is not None:
            evolves = options.columns == "evolve"
            return Fit(fitted(table, options.name, in_table(rows), evolves), exists=True)
        columns = self.columns(job, rows)
        require_partitions(options.partition_by, columns)
        return Fit(columns, exists=False)

    def prepare(self, job: SinkJob, rows: pa.Schema) -> IcebergTarget:
        options: IcebergOptions = job.options
        if not self.fit(job, rows).exists:
            making.make(options, in_table(rows))
            self.fit(job, rows)  # another run may have made it
        table = catalog.load(options, job.spark)
        if table is not None and (added := lacking(table, in_table(rows))):
            making.add_columns(options, added)
            self.fit(job, rows)
        if job.dead_letters:
            _prepare_letters(job)
        return _target(job)

    def ledger(self, job: SinkJob) -> LakeStore:
        return _target(job).open()

    # -- what only some can do

    def needs(self, job: SinkJob) -> SparkNeeds:
        return SparkNeeds(catalog.jars_for(job.options), catalog.spark_settings(job.options, job.spark))

    @contextmanager
    def frames(self, target: IcebergTarget, spark: SparkSession) -> Iterator[LakeStore]:
        with closing(target.open(spark)) as store:
            yield store

    def last_batch(self, store: LakeStore, pipeline: str) -> StreamBatch | None:
        return store.stream(pipeline)

    def begin_stream(self, store: LakeStore, tenure: Tenure, first: StreamBatch) -> None:
        store.begin_stream(tenure, first)

    def begin_anew(
        self,
        store: LakeStore,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int],
    ) -> None:
        store.begin_anew(pipeline, positions, topic_ids, kept)

    def require_no_rows(self, store: LakeStore, pipeline: str) -> None:
        store.require_no_rows(pipeline)

    def files(self, _job: SinkJob, an_hour: int) -> str:
        return (
            f"up to {an_hour:,} files an hour, of one batch each: raise batch.every, and compact the table "
            "now and then (rewrite_data_files), which a pipeline that is running does not mind"
        )

    def with_letters(self, store: LakeStore, letters: Letters) -> None:
        store.letters = letters

    def dead_letters(self, job: SinkJob) -> str:
        return dead_letters.options_for(job.options).name

    def state(self, job: SinkJob) -> tuple[Stored, Activity, Guarantee | None]:
        found = reading.history(job)
        return found.stored, found.activity(), found.guarantee

    def landed(
        self, store: LakeStore, pipeline: str, runs: Collection[UUID], _first: Mapping[TopicPartition, int]
    ) -> Landed:
        return store.landed(pipeline, runs)

    def positions(self, job: SinkJob) -> Stored:
        return reading.history(job).stored

    def commits(self, job: SinkJob) -> tuple[Stored, list[Commit]]:
        found = reading.history(job)
        return found.stored, found.commits()

    def commits_at(self, job: SinkJob, at: TopicPartition, offset: int) -> CommitsAt:
        found = reading.history(job)
        return commits_at(found.stored, found.commits(), at, offset, found.forgotten)

    def forgets(self, job: SinkJob) -> bool:
        return reading.history(job).forgotten

    def rows_at(self, job: SinkJob, at: TopicPartition, offset: int, firsts: bool, span: Span | None) -> RowsAt:
        return audited.rows_at(job, at, offset, firsts, span)

    def last_rows(self, job: SinkJob, most: int) -> tuple[list[str], list[tuple[Any, ...]]]:
        return audited.last_rows(job, most)

    def what_landed(self, job: SinkJob, columns: Columns) -> LandedRows:
        return audited.what_landed(job, columns)

    def key_order(self, _job: SinkJob, _merge: Merge) -> KeyOrder:
        return KeyOrder(bytewise=True)


def _prepare_letters(job: SinkJob) -> None:
    """The table beside the table. Raises Usage where one of that name is another one."""
    beside = dead_letters.options_for(job.options)
    table = catalog.load(beside, job.spark)
    if table is None:
        making.make(beside, dead_letters.PLAIN)
    else:
        fitted(table, beside.name, dead_letters.PLAIN)


def _target(job: SinkJob) -> IcebergTarget:
    return IcebergTarget(job.options, job.spark, job.guarantee.value)


KIND = IcebergKind()
