"""The rows of somebody's own stream: as they come, with their origin where they still hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from fencepost.engines.spark.batch_rows import BatchRows, flat_schema, require_place
from fencepost.engines.spark.offsets import PLACE
from fencepost.errors import Usage
from fencepost.rows.shape import FROM, RowShape
from fencepost.spec import PipelineSpec

_OF_KAFKA = {"topic": "string", "partition": "int", "offset": "bigint"}
_KIND = "timestampType"  # of Kafka's source: no sink that takes records has a place for it


@dataclass(frozen=True)
class OwnRows(BatchRows):
    """Columns of Kafka's source say where a row came from, as long as all three of them are there: or `_from` does."""

    named: bool = False  # by `_from`

    @property
    def place(self) -> Sequence[str]:
        return [f"{FROM}.{name}" for name in PLACE] if self.named else PLACE

    def made(self, records: DataFrame) -> DataFrame:
        return _with_place(records, self.shape.provenance and not self.named, not self.shape.flat)


def own_rows(records: DataFrame, spec: PipelineSpec) -> OwnRows:
    """Raises Usage for rows that cannot say what the sink's options ask for."""
    require_place(records)
    named, whole = FROM in records.columns, spec.sink.kind.capabilities.records
    provenance = spec.sink.options.provenance and (named or _holds_place(records))
    merge = spec.sink.options.merge
    deletes = provenance and merge is not None and merge.deletes
    if deletes and not _says_tombstone(records):
        raise Usage(
            "tombstones: delete needs to know which records have no value",
            f"add it: struct('topic', 'partition', 'offset', col('value').isNull().alias('tombstone')).alias('{FROM}')",
        )
    made = _with_place(records, provenance and not named, whole)
    schema = to_arrow_schema(made.schema) if whole else flat_schema(made)
    shape = RowShape(provenance, flat=not whole, tombstones=deletes)
    return OwnRows(shape, shape.schema(schema), named)


def _with_place(records: DataFrame, place: bool, whole: bool) -> DataFrame:
    left = {*(PLACE if place else ()), *([_KIND] if whole else [])}
    columns = [f.col(f"`{name}`") for name in records.columns if name not in left]
    return records.select(*columns, *([f.struct(*PLACE).alias(FROM)] if place else []))


def _holds_place(records: DataFrame) -> bool:
    kinds = dict(records.dtypes)
    return all(kinds.get(name) == kind for name, kind in _OF_KAFKA.items())


def _says_tombstone(records: DataFrame) -> bool:
    kind = records.schema[FROM].dataType if FROM in records.columns else None
    return isinstance(kind, StructType) and kind.fieldNames() == [*PLACE, "tombstone"]
