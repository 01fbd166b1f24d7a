"""`sink.options` of an Iceberg table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from fencepost.sinks.lake.options import LakeOptions
from fencepost.sinks.options import Location

STAGE = "fencepost_stage"  # writes data files, and commits nothing: rewrite_data_files has such a catalog for itself
NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,62}$"


class IcebergOptions(LakeOptions):
    """An Iceberg table in a catalog: one of Spark's own words, or one that is kept in PostgreSQL."""

    CALLED: ClassVar[str] = "an Iceberg table"

    catalog: Annotated[str, Field(pattern=NAME)] = Field(
        "lake",
        description="its name; unless `warehouse` is given, its settings are under spark: spark.sql.catalog.NAME",
    )
    table: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")] = Field(
        description="with its namespace: db.orders"
    )
    warehouse: Location | None = Field(
        None,
        description="where the files go, for a catalog that is kept in PostgreSQL (JDBC): an absolute path or a URI",
    )
    dsn: str | None = Field(
        None, description="that PostgreSQL, as libpq's connection string; absent: the local stack", repr=False
    )

    @model_validator(mode="after")
    def _one_catalog(self) -> IcebergOptions:
        if self.catalog == STAGE:
            raise PydanticCustomError("catalog", f"{STAGE!r} is the catalog by which data files are written")
        if self.dsn is not None and self.warehouse is None:
            raise PydanticCustomError("warehouse", "dsn names a catalog's database: say with warehouse where files go")
        return self

    @property
    def name(self) -> str:
        return f"{self.catalog}.{self.table}"

    def completed(self, local_dsn: Callable[[], str]) -> Self:
        if self.dsn is not None or self.warehouse is None:
            return self
        return self.model_copy(update={"dsn": local_dsn()})
