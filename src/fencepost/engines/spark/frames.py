"""Batches that go to their sink whole, as a DataFrame on the driver, by Spark's own writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost.delivery import Observer, Transaction, deliver
from fencepost.engines.spark import plan
from fencepost.engines.spark.batch_rows import BatchRows
from fencepost.engines.spark.excluded import Letters
from fencepost.engines.spark.failures import SparkFailure, translated
from fencepost.engines.spark.plan import Spans
from fencepost.engines.spark.shaping import shaped
from fencepost.engines.spark.staging import Numbering
from fencepost.engines.spark.writer import InTask, whole
from fencepost.errors import Refused
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Span, StreamStep, Tenure, TopicPartition
from fencepost.sinks.kind import Store, TakesFrames, TakesFramesWithLetters, Target, require_able

PLACE = ("_topic", "_partition", "_offset")


class NotWritten(Refused):
    """Spark failed in the middle of the write, and nothing of the batch is there; `failure` is what it raised."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(translated(failure).message)
        self.failure = failure


@dataclass
class NumberedRows(InTask):
    """Says of each row which output of its event it is: tasks of a narrow plan hold their rows by offset."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(Numbering().of, whole(batches))


def frame_of(transform: BatchRows, made: DataFrame, planned: DataFrame, spans: Spans) -> DataFrame:
    """The rows of a batch as the sink gets them, with where they came from. `planned`: rows whose plan is known."""
    if transform.shape.arrow:
        return shaped(transform, made, spans)
    if not transform.shape.provenance:
        return transform.for_stage(made)
    if plan.one_row_each(planned, spans.below):
        return transform.numbered(made)
    rows = transform.for_stage(made)
    if plan.wide_node(planned, spans.below) is None:
        return rows.mapInArrow(NumberedRows(), from_arrow_schema(transform.columns))  # type: ignore[arg-type]
    of_event = Window.partitionBy(*PLACE).orderBy(f.monotonically_increasing_id())
    return rows.withColumn("_n", (f.row_number().over(of_event) - 1).cast("int"))


@dataclass
class FrameWriter:
    """Delivers the batches of one term to a sink that takes them whole, through one store."""

    kind: TakesFrames
    guarantee: Guarantee
    tenure: Tenure
    target: Target
    spark: SparkSession
    see: Observer
    _open: ExitStack = field(default_factory=ExitStack)
    _store: Store | None = None

    def carry(
        self,
        rows: DataFrame | None,
        spans: Mapping[TopicPartition, Span],
        letters: Letters | None = None,
        step: StreamStep | None = None,
    ) -> dict[TopicPartition, Landed]:
        """What landed, told with the first of the spans. Raises NotWritten where Spark failed."""
        batch: Batch[Any] = Batch(spans, rows, self.tenure, step)
        try:
            store = self._opened(letters or {})
            landed = deliver(self.guarantee, batch, Translating(store), store, self.see)
        except BaseException:
            self.close()  # whatever it holds is in doubt
            raise
        if landed.already:
            return dict.fromkeys(batch.spans, landed)
        first, *others = batch.spans
        return {first: landed, **dict.fromkeys(others, Landed(rows=0))}

    def close(self) -> None:
        """It may be used again."""
        self._store = None
        self._open.close()

    def _opened(self, letters: Letters) -> Store:
        if self._store is None:
            self._store = self._open.enter_context(self.kind.frames(self.target, self.spark))
        if letters or isinstance(self.kind, TakesFramesWithLetters):
            able = require_able(self.kind, TakesFramesWithLetters, type(self.kind).__name__, "keep dead letters")
            able.with_letters(self._store, letters)
        return self._store


class Translating:
    """The store, with Spark's failures as an error of ours, which says that nothing was written."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, batch: Batch[Any]) -> Landed:
        with _translating():
            return self._store.write(batch)

    @contextmanager
    def transaction(self, batch: Batch[Any]) -> Iterator[Transaction[Any]]:
        with _translating(), self._store.transaction(batch) as transaction:
            yield transaction


@contextmanager
def _translating() -> Iterator[None]:
    try:
        yield
    except SparkFailure as failure:
        raise NotWritten(failure) from failure
