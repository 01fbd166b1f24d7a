"""A transform of record batches as part of Spark's plan: for sinks that take whole batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost.engines.spark.batch_rows import BatchRows
from fencepost.engines.spark.plan import TaskSpans
from fencepost.engines.spark.writer import InTask, whole
from fencepost.rows.shape import RowShape


def shaped(transform: BatchRows, made: DataFrame, spans: TaskSpans) -> DataFrame:
    """The rows that the function makes, in the tasks. Raises Poison there, which is text by the time it is here."""
    schema = from_arrow_schema(transform.columns)
    return made.mapInArrow(ShapedRows(transform.shape, spans), schema)  # type: ignore[arg-type]


@dataclass
class ShapedRows(InTask):
    """A transform of record batches, applied in the tasks."""

    shape: RowShape
    spans: TaskSpans  # by task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, _ = self.spans[self.task().partitionId()]
        return self.shape.rows(partition, whole(batches))
