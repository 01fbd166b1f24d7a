"""Batches whose plan mixes Kafka's partitions: tasks fill a stage, the driver moves it and every position at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from fencepost.delivery import Observer, deliver, nobody
from fencepost.engines.spark.excluded import Letters
from fencepost.engines.spark.secrets import TaskTarget
from fencepost.engines.spark.writer import InTask, store_for, whole
from fencepost.errors import FencepostError, from_facts
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Span, Step, StreamStep, Tenure, TopicPartition
from fencepost.rows.shape import OutputCount
from fencepost.sinks.kind import Stage, TakesTables, Target

RESULT_SCHEMA = "outcome string"  # as JSON


class Numbering:
    """Numbers the rows of each event, which is right as long as rows come by offset: then they follow each other."""

    def __init__(self) -> None:
        self._count = OutputCount()
        self._last = -1
        self.in_order = True

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows, with the number where the sink expects it: behind the offset."""
        offsets = rows.column("_offset")
        self.in_order = self.in_order and self._follows(offsets)
        numbers = self._count.of(offsets) if self.in_order else pa.repeat(pa.scalar(0, pa.int32()), len(offsets))
        return rows.add_column(rows.schema.get_field_index("_offset") + 1, "_n", numbers)

    def _follows(self, offsets: pa.Array) -> bool:
        if not len(offsets):
            return True
        if offsets.null_count or offsets[0].as_py() < self._last:
            return False
        self._last = offsets[-1].as_py()
        return bool(pc.all(pc.greater_equal(offsets[1:], offsets[:-1])).as_py())


@dataclass
class StageWriter(InTask):
    """A task's rows go into the stage."""

    target: TaskTarget
    stage: Stage
    batch: Batch[None]
    see: Observer = nobody

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task, numbering = self.task(), Numbering()
        rows = map(numbering.of, whole(batches)) if self.stage.provenance else whole(batches)

        def fill() -> Any:
            store = store_for(self.target, self.batch.tenure)
            done = self.stage.fill(store, task.partitionId(), task.taskAttemptId(), rows, lambda: numbering.in_order)
            self.see(Step.STAGED, self.batch)
            return done

        yield pa.RecordBatch.from_pylist([{"outcome": self.tell(fill)}], schema=pa.schema({"outcome": pa.string()}))


@dataclass(frozen=True)
class StagedWriter:
    """The driver's side."""

    kind: TakesTables
    guarantee: Guarantee
    tenure: Tenure
    target: Target
    for_tasks: TaskTarget  # the same, for the tasks
    provenance: bool
    see: Observer

    def carry(
        self,
        rows: DataFrame,
        spans: dict[TopicPartition, Span],
        letters: Letters,
        step: Callable[[], StreamStep] | None = None,
    ) -> tuple[dict[TopicPartition, Landed], list[FencepostError]]:
        """What landed of each span, and nothing else; or nothing, and the troubles of the tasks.

        `step`: of a stream that keeps state, known when the rows are staged. Such a batch is always run, for the state.
        """
        with self.kind.staging(self.target, self.tenure, self.provenance) as staging:
            store, empty = staging.store, Batch(spans, None, self.tenure)
            if step is None and store.done(empty):
                return dict.fromkeys(spans, Landed(rows=0, already=True)), []
            with staging.stage() as stage:
                filled, troubles = self._fill(rows, stage, empty)
                if troubles:
                    return {}, troubles
                staged = stage.rows(filled, letters)
                batch: Batch[Any] = Batch(spans, staged, self.tenure, step() if step else None)
                landed = deliver(self.guarantee, batch, store, store, self.see)
        return dict.fromkeys(spans, landed) if landed.already else dict(staged.shares(batch.noted)), []

    def _fill(self, rows: DataFrame, stage: Stage, batch: Batch[None]) -> tuple[list[Any], list[FencepostError]]:
        """The attempts that count: of each task the one whose result Spark returned."""
        writer = StageWriter(self.for_tasks, stage, batch, self.see)
        filled, troubles = [], []
        for row in rows.mapInArrow(writer, RESULT_SCHEMA).collect():  # type: ignore[arg-type]
            outcome = json.loads(row.outcome)
            if "error" in outcome:
                troubles.append(from_facts(outcome))
            else:
                filled.append(outcome)
        return filled, troubles
