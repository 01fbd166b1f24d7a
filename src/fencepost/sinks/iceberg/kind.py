"""An Iceberg table, as everybody else meets it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fencepost.errors import Usage
from fencepost.rules.sinks import Capabilities, WritePath
from fencepost.sinks.auditing import Columns, LandedRows
from fencepost.sinks.iceberg import audited, catalog
from fencepost.sinks.iceberg.demo import DEMO
from fencepost.sinks.iceberg.options import IcebergOptions
from fencepost.sinks.iceberg.schema import fitted, in_table, require_partitions, types_of
from fencepost.sinks.iceberg.table import IcebergTarget
from fencepost.sinks.kind import Fit, SinkJob, SparkNeeds
from fencepost.sinks.lake.store import LakeStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


WHY = "its rows are written by Spark's own writer"


class IcebergKind:
    """Rows and positions are published by one commit; a property of the table holds the positions."""

    capabilities = Capabilities(
        "iceberg", frozenset({WritePath.WHOLE}), atomic=True, engines=frozenset({"spark"}), why_engines=WHY
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
            return Fit(fitted(table, options.name, in_table(rows)), exists=True)
        columns = self.columns(job, rows)
        require_partitions(options.partition_by, columns)
        return Fit(columns, exists=False)

    def prepare(self, job: SinkJob, rows: pa.Schema) -> IcebergTarget:
        if not self.fit(job, rows).exists:
            _make(job.options, in_table(rows))
            self.fit(job, rows)  # another run may have made it
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

    def files(self, _job: SinkJob, an_hour: int) -> str:
        return (
            f"up to {an_hour:,} files an hour, of one batch each: raise batch.every, and compact the table "
            "now and then (rewrite_data_files), which a pipeline that is running does not mind"
        )

    def last_rows(self, job: SinkJob, most: int) -> tuple[list[str], list[tuple[Any, ...]]]:
        return audited.last_rows(job, most)

    def what_landed(self, job: SinkJob, columns: Columns) -> LandedRows:
        return audited.what_landed(job, columns)


def _target(job: SinkJob) -> IcebergTarget:
    return IcebergTarget(job.options, job.spark, job.guarantee.value)


def _make(options: IcebergOptions, rows: pa.Schema) -> None:
    """By the session that is open: a table is made once, before the first batch."""
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas.types import from_arrow_schema

    session = SparkSession.getActiveSession()
    if session is None:
        raise Usage(f"there is no table {options.name!r}", "the first `fencepost run` makes it")
    catalog.make(options)
    namespace = options.table.rpartition(".")[0]
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS {options.catalog}.{namespace}")
    fields = ", ".join(f"{_quoted(field.name)} {field.dataType.simpleString()}" for field in from_arrow_schema(rows))
    parted = ", ".join(map(_quoted, options.partition_by))
    by = f" PARTITIONED BY ({parted})" if parted else ""
    session.sql(
        f"CREATE TABLE IF NOT EXISTS {options.name} ({fields}) USING iceberg{by} TBLPROPERTIES ('format-version'='2')"
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


KIND = IcebergKind()
