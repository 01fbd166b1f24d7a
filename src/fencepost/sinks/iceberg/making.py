"""Tables that are made, and columns that are added: by the session that is open, before the first batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from fencepost.errors import Usage
from fencepost.sinks.iceberg import catalog
from fencepost.sinks.iceberg.options import IcebergOptions
from fencepost.sinks.lake.merging import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make(options: IcebergOptions, rows: pa.Schema) -> None:
    """The table, and its catalog's own place, where they are not there yet."""
    session = _session(options)
    catalog.make(options)
    namespace = options.table.rpartition(".")[0]
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS {options.catalog}.{namespace}")
    parted = ", ".join(map(quoted, options.partition_by))
    by = f" PARTITIONED BY ({parted})" if parted else ""
    session.sql(
        f"CREATE TABLE IF NOT EXISTS {options.name} ({_fields(rows)}) USING iceberg{by} "
        "TBLPROPERTIES ('format-version'='2')"
    )


def add_columns(options: IcebergOptions, added: pa.Schema) -> None:
    """Another run may add the same ones at this moment: who calls this looks at the table again."""
    from pyspark.errors import PySparkException

    for field in added:
        try:
            _session(options).sql(f"ALTER TABLE {options.name} ADD COLUMNS ({_fields(pa.schema([field]))})")
        except PySparkException:
            if field.name.lower() not in _columns(options):
                raise


def _columns(options: IcebergOptions) -> set[str]:
    return {name.lower() for name in _session(options).table(options.name).columns}


def _fields(rows: pa.Schema) -> str:
    from pyspark.sql.pandas.types import from_arrow_schema

    return ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in from_arrow_schema(rows))


def _session(options: IcebergOptions) -> SparkSession:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise Usage(f"there is no table {options.name!r}", "the first `fencepost run` makes it")
    return session
