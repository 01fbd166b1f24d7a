"""Batches of a stream that keeps state: run once, and landed whole with their number, which decides what landed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from fencepost.engines.listener import BatchDone, PartitionsAdded
from fencepost.engines.spark.batches import BatchCarrier, worst
from fencepost.engines.spark.failures import SparkFailure, translated
from fencepost.engines.spark.frames import NotWritten
from fencepost.engines.spark.query import RunningQuery, query_of
from fencepost.engines.spark.source import KafkaSource
from fencepost.engines.spark.staging import StagedWriter
from fencepost.engines.spark.stateful import folders
from fencepost.engines.spark.stateful.checkpoint import Checkpoint, Planned, ends_of
from fencepost.engines.spark.stateful.once import made_once
from fencepost.engines.spark.stateful.takeover import OwnCheckpoint
from fencepost.engines.spark.stream import BatchStream
from fencepost.errors import CheckpointMismatch, Refused
from fencepost.model import Landed, Span, StreamBatch, StreamStep, TopicPartition
from fencepost.sinks.kind import TakesFrames, TakesTables, require_able
from fencepost.spec import OutputMode

CHANGED = (
    "or, if the transform is another one than that which made the state: go back to that one, or build the state anew "
    "(docs/state.md)"
)

LENIENT = "read it with value: string, and leave such records out in the transform (docs/state.md)"


@dataclass
class StateCarrier(BatchCarrier):
    """Of one term, which has a checkpoint of its own. Each batch is run once: twice would write its state twice."""

    own: OwnCheckpoint = field(kw_only=True)
    keeps: str = field(kw_only=True)  # the part of the transform that keeps state
    source: KafkaSource = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._last = self.own.last
        self._log = Checkpoint(self.own.folder)

    @property
    def fresh(self) -> bool:
        """Has this term not landed a batch yet?"""
        return self._last is self.own.last

    def carry_numbered(self, rows: DataFrame, number: int) -> BatchDone:
        """Deliver the batch that Spark calls with. Raises PartitionsAdded where one is not of this term."""
        planned = self._planned(number)
        spans = self._spans(planned)
        query = query_of(rows)
        try:
            landed = self._landed_once(rows, spans, lambda: self._step(query, number, planned))
        except SparkFailure as error:
            if (bad := self._malformed(spans)) is not None:
                raise bad from error
            raise
        if self.fresh:
            folders.clear(self.own.root, self.tenure, self.own.base)
        self._last = self._next
        return BatchDone(
            number,
            {at: span.end for at, span in spans.items()},
            sum(span.end - span.start for span in spans.values()),
            sum(one.rows for one in landed.values()),
            dead=0,
            already=sum(one.already for one in landed.values()),
            staged=self.wide_node,
        )

    def _planned(self, number: int) -> Planned:
        planned = self._log.planned(number)
        if planned is None or number != self._last.number + 1:
            raise CheckpointMismatch(
                f"{self.tenure.pipeline}: Spark runs batch {number} of {self.own.folder}, and the last one that landed "
                f"is {self._last.number}",
                "run again: the state is taken from the last one that landed",
            )
        return planned

    def _spans(self, planned: Planned) -> dict[TopicPartition, Span]:
        """Of every partition: those without records hold their place too."""
        starts, ends = {**self.tenure.positions, **ends_of(self._last.offsets)}, ends_of(planned.offsets)
        if not ends.keys() <= self.tenure.positions.keys():
            raise PartitionsAdded
        return {at: Span(start, ends.get(at, start)) for at, start in starts.items()}

    def _malformed(self, spans: Mapping[TopicPartition, Span]) -> Refused | None:
        """The first record of the batch that is not what the file says; Spark itself does not tell where it is."""
        for at, span in sorted(spans.items()):
            wrong = self.source.malformed(self.source.batch(self.spark, at, span)) if span.start < span.end else None
            found = wrong.orderBy("offset").first() if wrong is not None else None
            if found is not None:
                return Refused(f"{at} offset {found.offset}: not JSON of the schema: {found.text[:200]}", LENIENT)
        return None

    def _step(self, query: RunningQuery, number: int, planned: Planned) -> StreamStep:
        """When all tasks are done: their state is on disk, and Spark knows the watermark that follows."""
        if (part := self._log.lacks_state(number + 1)) is not None:
            raise Refused(
                f"the state after batch {number} is not in {self.own.folder} ({part})",
                "checkpoint must be a folder that the driver and all executors share",
            )
        self._log.sync(number, whole=self.fresh)
        self._next = StreamBatch(
            query.stream, number, planned.offsets, planned.watermark, query.next_watermark(), self.own.folder.name
        )
        return StreamStep(self._last, self._next)

    def _landed_once(
        self, rows: DataFrame, spans: dict[TopicPartition, Span], step: Callable[[], StreamStep]
    ) -> Mapping[TopicPartition, Landed]:
        self._require_checked()
        self.wide_node = self.keeps
        if isinstance(self.kind, TakesFrames):
            return self._framed(self.kind, rows, spans, step)
        return self._staged(rows, spans, step)

    def _framed(
        self,
        kind: TakesFrames,
        rows: DataFrame,
        spans: dict[TopicPartition, Span],
        step: Callable[[], StreamStep],
    ) -> Mapping[TopicPartition, Landed]:
        """Who writes a frame may read it more than once: so it is made first, and the state with it."""
        with made_once(self.rows.for_stage(self.rows.made(rows))) as made:
            try:
                return self._frames(kind).carry(made.rows(len(spans)), spans, step=step())
            except NotWritten as error:
                made.require_whole(error)
                raise translated(error.failure) from error

    def _staged(
        self, rows: DataFrame, spans: dict[TopicPartition, Span], step: Callable[[], StreamStep]
    ) -> Mapping[TopicPartition, Landed]:
        kind = require_able(self.kind, TakesTables, self.kind.capabilities.name, "take a batch as a whole")
        staging = StagedWriter(kind, self.guarantee, self.tenure, self.target, self._for_tasks, False, self.see)
        landed, troubles = staging.carry(self.rows.for_stage(self.rows.made(rows)), spans, {}, step)
        if troubles:
            raise worst(troubles)
        return landed


@dataclass
class StateStream(BatchStream):
    """One term's work on a stream that keeps state, in the checkpoint of the term."""

    carrier: StateCarrier
    transform: Callable[[DataFrame], DataFrame] = field(kw_only=True)
    output_mode: OutputMode = OutputMode.APPEND

    def carry(self, once: bool, every: str) -> None:
        with closing(self.carrier):
            try:
                self._wait(self._start(self.carrier.own.folder, once, every))
            except Refused as refusal:
                with self.guard() as require_own:
                    require_own()  # a successor clears our folder away: then it is Fenced that ends this run
                if self.carrier.fresh and self.carrier.own.base is not None:
                    raise Refused(refusal.message, f"{refusal.remedy}; {CHANGED}") from refusal
                raise

    def _writer(self) -> DataStreamWriter:
        records = self.source.stream(self.carrier.spark, self.carrier.tenure.positions)
        return self.transform(records).writeStream.outputMode(self.output_mode.value)

    def _carried(self, records: DataFrame, number: int) -> BatchDone:
        return self.carrier.carry_numbered(records, number)
