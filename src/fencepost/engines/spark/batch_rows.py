"""The rows that come of a batch, as the writers of each path expect them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from fencepost.engines.spark.offsets import PLACE
from fencepost.engines.spark.selection import Selection
from fencepost.errors import Usage
from fencepost.rows.json_column import json_field
from fencepost.rows.shape import FROM, RowShape

NESTED = (ArrayType, MapType, StructType, VariantType)


@dataclass(frozen=True)
class BatchRows:
    """Their shape, and the columns that the sink gets."""

    shape: RowShape
    columns: pa.Schema
    # of what was made, by its schema
    _selections: dict[tuple[str, str], Selection] = field(default_factory=dict, repr=False, compare=False, kw_only=True)

    @property
    def place(self) -> Sequence[str]:
        """The columns of a batch that say where a record is."""
        return PLACE

    def made(self, records: DataFrame) -> DataFrame:
        """The batch's rows, with `_from` where it is known where they came from."""
        raise NotImplementedError

    def for_partitions(self, made: DataFrame) -> DataFrame:
        """JSON for what is nested, and of where a row came from the offset: its task knows the partition."""
        if self.shape.arrow:
            return made
        return self._with("partitions", made, self._in_partition)

    def _in_partition(self, made: DataFrame) -> list[Column]:
        offset = f.col(f"{FROM}.offset")
        place = [offset.alias(FROM)] if self.shape.provenance else []
        if self.shape.tombstones:
            place = [f.struct(offset, f.col(f"{FROM}.tombstone")).alias(FROM)]
        return [*(_flattened(made) if self.shape.flat else _as_they_are(made)), *place]

    def for_stage(self, made: DataFrame) -> DataFrame:
        """The same for tasks that hold rows of any partition."""
        return self._with("stage", made, self._anywhere)

    def numbered(self, made: DataFrame) -> DataFrame:
        """The same where each event gives one row at most."""
        return self._with("numbered", made, lambda made: [*self._anywhere(made), f.lit(0).alias("_n")])

    def _anywhere(self, made: DataFrame) -> list[Column]:
        names = [*PLACE, *(["tombstone"] if self.shape.tombstones else [])] if self.shape.provenance else []
        return [*_flattened(made), *(f.col(f"{FROM}.{name}").alias(f"_{name}") for name in names)]

    def _with(self, use: str, made: DataFrame, columns: Callable[[DataFrame], list[Column]]) -> DataFrame:
        key = (use, str(made._jdf.schema().json()))
        if key not in self._selections:
            self._selections[key] = Selection(columns(made))
        return self._selections[key].of(made)


def flat_schema(made: DataFrame) -> pa.Schema:
    """The columns with JSON text for what is nested."""
    return pa.schema([_arrow_field(made, name) for name in made.columns])


def require_place(made: DataFrame) -> None:
    """Refuse a `_from` that is something else now, as an aggregate may make it."""
    kind = made.schema[FROM].dataType if FROM in made.columns else StructType()
    names = kind.fieldNames() if isinstance(kind, StructType) else []
    if FROM in made.columns and names[:3] != list(PLACE):
        raise Usage(
            f"the transform turns {FROM} into a {kind.simpleString()}; it must stay a single record's origin",
            f"drop it, or keep one of several: max({FROM}) AS {FROM}",
        )


def _as_they_are(made: DataFrame) -> list[Column]:
    return [f.col(f"`{name}`") for name in made.columns if name != FROM]


def _flattened(made: DataFrame) -> list[Column]:
    return [_flat(made, name) for name in made.columns if name != FROM]


def _flat(frame: DataFrame, name: str) -> Column:
    """A nested column as JSON text; fields without a value are kept as null."""
    column = f.col(f"`{name}`")
    if isinstance(frame.schema[name].dataType, NESTED):
        return f.to_json(column, {"ignoreNullFields": "false"}).alias(name)
    return column


def _arrow_field(frame: DataFrame, name: str) -> pa.Field:
    field = frame.schema[name]
    if isinstance(field.dataType, NESTED) and name != FROM:
        return json_field(name)
    arrow: pa.Field = to_arrow_schema(StructType([field]))[0]
    return arrow
