"""A folder of Parquet files, as everybody else meets it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from fencepost.errors import Usage
from fencepost.rows.shape import PROVENANCE
from fencepost.rules.sinks import Capabilities, WritePath
from fencepost.sinks.auditing import Columns, LandedRows, Relation
from fencepost.sinks.kafka.kind import expires_after
from fencepost.sinks.kind import Fit, SinkJob, SparkNeeds
from fencepost.sinks.lake.audited import for_audit, wanted
from fencepost.sinks.parquet.columns import fitted, types_of
from fencepost.sinks.parquet.folder import Folder
from fencepost.sinks.parquet.options import ParquetOptions
from fencepost.sinks.parquet.store import ParquetStore, ParquetTarget

# INT96, Spark's default, is what other readers have given up
DEFAULTS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


class ParquetKind:
    """Files without a log: nothing can publish rows and positions in one step."""

    capabilities = Capabilities(
        "parquet",
        frozenset({WritePath.WHOLE}),
        atomic=False,
        engines=frozenset({"spark"}),
        why_engines="its rows are written by Spark's own writer",
        group_ledger=True,
        instead="use format: delta or format: iceberg, which are Parquet files with a log that can",
    )
    options = ParquetOptions

    def settings(self, _job: SinkJob) -> Mapping[str, str]:
        return {}

    def columns(self, job: SinkJob, rows: pa.Schema) -> Mapping[str, str]:
        return types_of(rows, job.options.partition_by)

    def fit(self, job: SinkJob, rows: pa.Schema) -> Fit:
        options: ParquetOptions = job.options
        there = Folder(options).schema()
        if there is None:
            return Fit(self.columns(job, rows), exists=False)
        return Fit(fitted(options.path, rows, there, options.partition_by), exists=True)

    def prepare(self, job: SinkJob, rows: pa.Schema) -> ParquetTarget:
        """The first batch makes the folder."""
        self.fit(job, rows)
        return _target(job)

    def ledger(self, job: SinkJob) -> ParquetStore:
        return _target(job).open()

    # -- what only some can do

    def needs(self, _job: SinkJob) -> SparkNeeds:
        return SparkNeeds((), {}, DEFAULTS)

    @contextmanager
    def frames(self, target: ParquetTarget, _spark: Any) -> Iterator[ParquetStore]:
        with closing(target.open()) as store:
            yield store

    def expires_after(self, job: SinkJob) -> float:
        return expires_after(job.kafka)

    def files(self, _job: SinkJob, an_hour: int) -> str:
        return f"up to {an_hour:,} files an hour, of one batch each, which nothing here compacts: raise batch.every"

    def last_rows(self, job: SinkJob, most: int) -> tuple[list[str], list[tuple[Any, ...]]]:
        return Folder(job.options).last_rows(most)

    by_name = "parquet:PATH"

    def named(self, *names: str) -> ParquetOptions:
        return ParquetOptions.model_construct(path=names[0])

    def what_landed(self, job: SinkJob, columns: Columns) -> LandedRows:
        folder = Folder(job.options)
        names = folder.require().schema.names
        for column in filter(None, (columns.id, columns.payload)):
            if column not in names:
                raise Usage(f"the files in {job.options.path!r} have no column {column!r}")
        provenance = set(PROVENANCE.names) <= set(names)
        return LandedRows(Relation(partial(_arrow, folder, columns, provenance)), provenance)


def _arrow(folder: Folder, columns: Columns, provenance: bool) -> pa.Table:
    placed = provenance and not columns.id
    return for_audit(folder.read(wanted(columns, placed)), columns, placed)


def _target(job: SinkJob) -> ParquetTarget:
    return ParquetTarget(job.options, job.pipeline, job.kafka)


KIND = ParquetKind()
