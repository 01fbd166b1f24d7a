"""A flow into an Iceberg table of its own, in a catalog in the stack's PostgreSQL; looked at by pyiceberg."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from pyiceberg.table import Table
from pyspark.sql import SparkSession

from fencepost.engines.spark.session import session_for
from fencepost.guarantee import Guarantee
from fencepost.sinks.iceberg import catalog
from fencepost.sinks.iceberg.kind import KIND
from fencepost.sinks.iceberg.options import IcebergOptions
from fencepost.sinks.kind import SinkJob
from fencepost.sinks.lake.store import LakeStore
from fencepost.spec import load
from spark.flows import Flow


class IcebergFlow(Flow):
    """The files are in a folder of the test's."""

    WRITES = "fencepost.sinks.iceberg.table.staged"  # what brings rows to the table

    @property
    def options(self) -> dict[str, Any]:
        return {"table": f"db.{self.name}", "warehouse": str(self.folder / "warehouse"), "dsn": self.stack.dsn}

    @property
    def job(self) -> SinkJob:
        return SinkJob(
            self.name, Guarantee.EXACTLY_ONCE, IcebergOptions.model_validate(self.options), spark=self.declared
        )

    @property
    def declared(self) -> dict[str, str]:
        """The catalog in Spark's words, where it is not in PostgreSQL."""
        return {}

    def declare(self, **parts: Any) -> Path:
        options = {**self.options, **parts.pop("options", {})}
        spark = {**self.declared, **parts.pop("spark", {})}
        return super().declare(**{"sink": {"format": "iceberg", "options": options}, **parts}, spark=spark)

    def table(self) -> Table | None:
        return catalog.load(self.job.options, self.declared)

    def landed(self, column: str = "id") -> list[Any]:
        table = self.table()
        return table.scan(selected_fields=(column,)).to_arrow().column(column).to_pylist() if table else []

    def rows(self) -> list[dict[str, Any]]:
        return _rows(self.table())

    def letters(self) -> list[dict[str, Any]]:
        return _rows(catalog.load(self.job.options, self.declared, f"db.{self.name}_dead"))

    def delete(self, where: str) -> None:
        """As somebody else."""
        self.maintain(f"DELETE FROM {{table}} WHERE {where}")

    def partitioned_by(self) -> list[str]:
        table = self.table()
        return [field.name for field in table.spec().fields] if table else []

    def branches(self) -> list[str]:
        table = self.table()
        return sorted(name for name in table.refs() if name != "main") if table else []

    def store(self) -> LakeStore:
        return KIND.ledger(self.job)

    def positions(self) -> dict[int, int]:
        with closing(self.store()) as store:
            return {at.partition: position for at, position in store.positions(self.name).items()}

    def stored(self) -> list[Any]:
        with closing(self.store()) as store:
            held = sorted((*at, one.position, one.owner, one.topic_id) for at, one in store.stored(self.name).items())
        return [*held, sorted(self.landed())]

    def connections(self) -> int:
        """To the catalog, in the tests' own database."""
        ((number,),) = self.sql(
            "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = current_database() "
            "AND application_name = %s",
            catalog.APPLICATION,
        )
        return int(number)

    def data_files(self) -> list[Path]:
        """Everything that was written, committed or not."""
        return list((self.folder / "warehouse").rglob("*.parquet"))

    def beside(self, statement: str) -> None:
        """The same in the session of a pipeline that runs in this process."""
        SparkSession.builder.getOrCreate().sql(self._told(statement))

    def _told(self, statement: str) -> str:
        options: IcebergOptions = self.job.options
        return statement.format(catalog=options.catalog, name=options.table, table=options.name)

    def maintain(self, *statements: str) -> None:
        """What an operator does to the table, in Spark's SQL."""
        spec = load(self.declare())
        with session_for(spec) as spark:
            for statement in statements:
                spark.sql(self._told(statement))


def _rows(table: Table | None) -> list[dict[str, Any]]:
    return list(table.scan().to_arrow().to_pylist()) if table else []
