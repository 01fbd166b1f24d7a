"""Batches of one term, whoever's query they come from: each is delivered by the path that its plan allows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from fencepost.delivery import Observer, deliver, nobody
from fencepost.engines.listener import BatchDone, PartitionsAdded
from fencepost.engines.spark import plan
from fencepost.engines.spark.batch_rows import BatchRows
from fencepost.engines.spark.driver_writer import DriverWriter
from fencepost.engines.spark.excluded import ExcludedRecords
from fencepost.engines.spark.failures import SparkFailure, of_a_time, translated
from fencepost.engines.spark.frames import FrameWriter, NotWritten, frame_of
from fencepost.engines.spark.poison import PoisonSearch
from fencepost.engines.spark.secrets import TaskTarget
from fencepost.engines.spark.staging import StagedWriter
from fencepost.engines.spark.transform import Transform
from fencepost.engines.spark.writer import RESULT_SCHEMA, Delivery, PartitionWriter
from fencepost.errors import FencepostError, Poison, Refused, Repeated, Unreachable, from_facts
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Span, Tenure, TopicPartition
from fencepost.rules.brake import Brake
from fencepost.rules.sinks import WritePath, choose_path
from fencepost.sinks.kind import SinkKind, TakesFrames, TakesTables, Target, require_able

Outcomes = dict[TopicPartition, Landed]
Troubles = Sequence[Poison | Repeated]


@dataclass
class BatchCarrier:
    """Everything that a batch needs. Used in a `with`, one batch at a time."""

    spark: SparkSession
    rows: BatchRows
    guarantee: Guarantee
    kind: SinkKind
    target: Target
    tenure: Tenure
    before_batch: Callable[[], object] = lambda: None  # raises when the topic is not the same any more
    # raises when records that were not read yet are gone, those of the current spans among them
    require_readable: Callable[[dict[TopicPartition, Span]], object] = lambda _: None
    see: Observer = nobody
    task_target: TaskTarget | None = None  # the target as tasks get it; None: as it is
    small: int = 5_000  # records of a batch that the driver delivers itself; 0: tasks deliver all of them
    brake: Brake | None = None  # records that cannot be delivered go to the dead letters; None: the first one stops
    _counts: dict[tuple[TopicPartition, Span], int] = field(default_factory=dict)  # of the batch's records
    wide_node: str | None = None  # the part of the last batch's plan that mixes partitions, if there is one

    def __post_init__(self) -> None:
        self._delivery = Delivery(self.guarantee, self.tenure, self.rows.shape, self.see)
        self._by_driver = DriverWriter(self._delivery, self.target, self.small)
        self._whole_batches: FrameWriter | None = None
        self._open = ExitStack()
        self._open.enter_context(closing(self._by_driver))
        self._aside = self._open.enter_context(ThreadPoolExecutor(1, "fencepost-topic"))

    def close(self) -> None:
        """Let go of everything; it is not used again."""
        self._open.close()

    def begin(self) -> None:
        """Before the batch is planned: the topic is asked meanwhile."""
        self._checked = self._aside.submit(self.before_batch)

    def carry(self, records: DataFrame, number: int, spans: plan.Spans) -> BatchDone:
        """Deliver one batch, whose spans these are. Raises PartitionsAdded where one is not of this term."""
        self._counts.clear()
        if any(partition not in self.tenure.positions for partition, _ in spans):
            raise PartitionsAdded
        try:
            landed = self._landed(records, spans)
        except SparkFailure as error:
            search = self._search(records, spans)
            if search and of_a_time(error) and (place := search.unreadable()):
                raise place from error
            raise
        return BatchDone(
            number,
            {partition: span.end for partition, span in spans},
            sum(span.end - span.start for _, span in spans),
            sum(one.rows for one in landed.values()),
            sum(one.dead for one in landed.values()),
            sum(one.already for one in landed.values()),
            staged=self.wide_node,
        )

    def _landed(self, records: DataFrame, spans: plan.Spans) -> Outcomes:
        """Deliver the batch; where records are dead-lettered, again without the bad ones until the rest lands."""
        again = self._again
        excluded = ExcludedRecords(again.source if again else None, self.rows.place)
        landed: Outcomes = {}
        while True:
            now, troubles = self._attempt(excluded.without(records), spans, excluded)
            landed = {**now, **landed}  # what landed in an earlier attempt says "already" in a later one
            if not troubles:
                break
            for trouble in troubles:
                self._left_out(trouble, excluded, dict(spans))
        if self.brake is not None:
            for at, span in spans:
                bad = len(excluded.reasons.get(at, ()))
                self.brake.landed(at, self._count(at, span) if bad else span.end - span.start, bad)
        return landed

    def _left_out(
        self, trouble: Poison | Repeated, excluded: ExcludedRecords, spans: dict[TopicPartition, Span]
    ) -> None:
        """The next attempt goes without these records. Raises where the run stops for them."""
        if isinstance(trouble, Repeated):
            excluded.leave_out(trouble)
            return
        if (brake := self.brake) is None:
            raise trouble
        excluded.add(
            self.spark, trouble, lambda at: brake.require(at, self._count(at, spans[at]), excluded.reasons[at])
        )

    def _count(self, partition: TopicPartition, span: Span) -> int:
        """Of records: offsets may be missing, where somebody can tell."""
        if (partition, span) not in self._counts:
            read = self._again and self._again.source.batch(self.spark, partition, span)
            self._counts[partition, span] = read.count() if read else span.end - span.start
        return self._counts[partition, span]

    def _attempt(self, records: DataFrame, spans: plan.Spans, excluded: ExcludedRecords) -> tuple[Outcomes, Troubles]:
        made = self.rows.made(records)
        rows = self.rows.for_partitions(made)
        self.wide_node = None
        if plan.gives_nothing(rows) or not spans:  # an aggregate of nothing would be a row
            self._require_checked()
            return self._without_tasks(spans), []
        if isinstance(self.kind, TakesFrames):
            return self._whole(self.kind, (made, rows), records, spans, excluded)
        self.wide_node = plan.wide_node(rows, spans.below)
        try:
            if choose_path(self.kind.capabilities, self.wide_node) is WritePath.STAGED:
                return self._by_stage(self.rows.for_stage(made), spans, excluded)
            if not plan.reads_alike(rows, spans):
                raise Refused("the transform's tasks do not read one Kafka partition each, in the order of the source")
            if self._by_driver.takes(spans):
                outcomes = self._by_driver.carry(rows, spans, excluded.letters(), self._require_checked)
                return _sorted_out(outcomes)
            return self._by_tasks(rows, spans, excluded)
        except SparkFailure as error:
            return {}, self._bad_records(error, records, spans, excluded)

    def _bad_records(
        self, error: Exception, records: DataFrame, spans: plan.Spans, excluded: ExcludedRecords
    ) -> Troubles:
        """Those that Spark fails on; raises what else it may be."""
        failure = translated(error)
        self._require_checked()
        if isinstance(failure, Unreachable):
            raise failure from error
        self.require_readable(dict(spans))  # where records are gone, reading fails as it does for bad ones
        if of_a_time(error):
            raise error  # whatever else is bad: the batch cannot be read
        if (search := self._search(records, spans)) is None:
            raise failure from error
        return search.find(failure, excluded.offsets())

    def _whole(
        self,
        kind: TakesFrames,
        frames: tuple[DataFrame, DataFrame],
        records: DataFrame,
        spans: plan.Spans,
        excluded: ExcludedRecords,
    ) -> tuple[Outcomes, Troubles]:
        """By Spark's own writer, in one commit. `frames`: what the transform made, and the same as it was planned."""
        self._require_checked()
        try:
            return self._frames(kind).carry(frame_of(self.rows, *frames, spans), dict(spans), excluded.letters()), []
        except Poison as poison:  # of a key that is null
            return {}, [poison]
        except NotWritten as error:
            return {}, self._bad_records(error.failure, records, spans, excluded)

    def _frames(self, kind: TakesFrames) -> FrameWriter:
        if self._whole_batches is None:
            frames = FrameWriter(kind, self.guarantee, self.tenure, self.target, self.spark, self.see)
            self._whole_batches = self._open.enter_context(closing(frames))
        return self._whole_batches

    def _search(self, records: DataFrame, spans: plan.Spans) -> PoisonSearch | None:
        """None where nobody but their author can make the rows again."""
        if (again := self._again) is None:
            return None
        return PoisonSearch(again, records, spans, again.shape.most_bad, isinstance(self.kind, TakesFrames))

    @property
    def _again(self) -> Transform | None:
        """What makes the rows of Kafka's records; None where that was done before."""
        return self.rows if isinstance(self.rows, Transform) else None

    @property
    def _for_tasks(self) -> TaskTarget:
        return self.task_target or TaskTarget(self.target)

    def _require_checked(self) -> None:
        """Before anything of the batch moves: the topic was asked while the batch was planned."""
        self._checked.result()

    def _by_tasks(self, rows: DataFrame, spans: plan.Spans, excluded: ExcludedRecords) -> tuple[Outcomes, Troubles]:
        self._by_driver.close()
        self._require_checked()
        writer = PartitionWriter(self._delivery, self._for_tasks, spans, excluded.letters())
        found = rows.mapInArrow(writer, RESULT_SCHEMA).collect()  # type: ignore[arg-type]
        self._by_driver.saw(spans, sum(row.bytes for row in found))
        outcomes = {TopicPartition(row.topic, row.partition): json.loads(row.outcome) for row in found}
        return _sorted_out({at: from_facts(one) if "error" in one else Landed(**one) for at, one in outcomes.items()})

    def _by_stage(self, rows: DataFrame, spans: plan.Spans, excluded: ExcludedRecords) -> tuple[Outcomes, Troubles]:
        provenance = self.rows.shape.provenance
        kind = require_able(self.kind, TakesTables, self.kind.capabilities.name, "take a batch as a whole")
        self._require_checked()
        staging = StagedWriter(kind, self.guarantee, self.tenure, self.target, self._for_tasks, provenance, self.see)
        try:
            landed, troubles = staging.carry(rows, dict(spans), excluded.letters())
        except Poison as poison:  # the table does not take what the stage took
            return {}, [poison]
        return landed, _poisons(troubles)

    def _without_tasks(self, spans: plan.Spans) -> Outcomes:
        """A plan that can give no row has no tasks either; the positions move all the same."""
        if isinstance(self.kind, TakesFrames):
            return self._frames(self.kind).carry(None, dict(spans)) if spans else {}
        self._by_driver.close()  # of a partition that it holds nobody else may be the writer
        store = self.target.open()
        try:
            batches: dict[TopicPartition, Batch[Any]] = {
                at: Batch({at: span}, iter(()), self.tenure) for at, span in spans
            }
            return {at: deliver(self.guarantee, batch, store, store, self.see) for at, batch in batches.items()}
        finally:
            store.close()


def _sorted_out(outcomes: Mapping[TopicPartition, Landed | FencepostError]) -> tuple[Outcomes, Troubles]:
    landed = {at: one for at, one in outcomes.items() if isinstance(one, Landed)}
    return landed, _poisons([one for one in outcomes.values() if isinstance(one, FencepostError)])


def _poisons(troubles: list[FencepostError]) -> Troubles:
    """The records to be left out that tasks found; raises what else there was."""
    poisons = [trouble for trouble in troubles if isinstance(trouble, Poison | Repeated)]
    if len(poisons) < len(troubles):
        raise worst([trouble for trouble in troubles if not isinstance(trouble, Poison | Repeated)])
    return poisons


def worst(troubles: list[FencepostError]) -> FencepostError:
    """The one that decides: being fenced ends a run whatever else happened, then what a person must fix."""
    order = {4: 0, 1: 1, 2: 1, 5: 2, 3: 3}
    return min(troubles, key=lambda error: order[error.exit_code])
