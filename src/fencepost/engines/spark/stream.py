"""One streaming query that delivers batches until it is drained, stopped or in trouble."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fencepost.delivery import Observer, deliver, nobody
from fencepost.engines.listener import BatchDone, PartitionsAdded, RenewalDue, Waiting
from fencepost.engines.spark import plan, scratch
from fencepost.engines.spark.driver_writer import DriverWriter
from fencepost.engines.spark.excluded import ExcludedRecords
from fencepost.engines.spark.failures import SparkFailure, of_a_time, translated
from fencepost.engines.spark.frames import FrameWriter, NotWritten, frame_of
from fencepost.engines.spark.ownership import SILENCE, Guard, OwnershipWatch, unguarded
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


class Stopped(Exception):
    """The run was asked to stop; raised at the start of a batch, when nothing is under way."""


@dataclass
class BatchStream:
    """One term's work: everything that a batch needs."""

    spark: SparkSession
    transform: Transform
    guarantee: Guarantee
    kind: SinkKind
    target: Target
    tenure: Tenure
    report: Callable[[BatchDone], None]
    tell: Callable[[Waiting], None] = lambda _: None
    guard: Guard = unguarded  # raises Fenced when another run owns the positions
    before_batch: Callable[[], object] = lambda: None  # raises when the topic is not the same any more
    # raises when records that were not read yet are gone, those of the current spans among them
    require_readable: Callable[[dict[TopicPartition, Span]], object] = lambda _: None
    stop: Event = field(default_factory=Event)
    see: Observer = nobody
    task_target: TaskTarget | None = None  # the target as tasks get it; None: as it is
    small: int = 5_000  # records of a batch that the driver delivers itself; 0: tasks deliver all of them
    renew_after: float = inf  # seconds after which a ledger must hear of every position again
    brake: Brake | None = None  # records that cannot be delivered go to the dead letters; None: the first one stops
    trouble: BaseException | None = None
    busy: bool = False  # with a batch
    _began: float = field(default_factory=monotonic)
    _counts: dict[tuple[TopicPartition, Span], int] = field(default_factory=dict)  # of the batch's records
    wide_node: str | None = None  # the part of the last batch's plan that mixes partitions, if there is one

    def __post_init__(self) -> None:
        self._delivery = Delivery(self.guarantee, self.tenure, self.transform.shape, self.see)
        self._by_driver = DriverWriter(self._delivery, self.target, self.small)
        self._whole_batches: FrameWriter | None = None
        self._open = ExitStack()
        self._open.enter_context(closing(self._by_driver))
        self._aside = self._open.enter_context(ThreadPoolExecutor(1, "fencepost-topic"))

    def carry(self, once: bool, every: str) -> None:
        """Run until drained (once) or stopped. Raises what a batch raised, or what Spark's own failure means."""
        with scratch.subfolder("checkpoint") as checkpoint, self._open:
            self._wait(self._start(checkpoint, once, every))

    def _start(self, checkpoint: Path, once: bool, every: str) -> StreamingQuery:
        stream = self.transform.source.stream(self.spark, self.tenure.positions)
        writer = stream.writeStream.foreachBatch(self._batch).option("checkpointLocation", checkpoint.as_uri())
        return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)).start()

    def _wait(self, query: StreamingQuery) -> None:
        try:
            with OwnershipWatch(self.guard) as watch:
                while not query.awaitTermination(0.2):  # type: ignore[arg-type]
                    if self.stop.is_set() and not query.status["isTriggerActive"]:
                        query.stop()
                    self._heed(watch, query)
        except PySparkException as error:
            if isinstance(self.trouble, Stopped):
                return
            if self.trouble is not None:
                raise self.trouble from None  # Spark buries it in text; this is the one that was raised
            failure = translated(error)
            if not isinstance(failure, Unreachable):
                self.require_readable({})
            raise failure from error

    def _heed(self, watch: OwnershipWatch, query: StreamingQuery) -> None:
        if watch.falls_silent():
            self.tell(Waiting(f"{self.kind.capabilities.name} has not answered for {SILENCE:.0f} s", None))
        idle = not self.busy and self.trouble is None  # a batch finds out by itself
        if idle and (watch.trouble is not None or self._due):
            query.stop()
            raise watch.trouble or RenewalDue

    def _batch(self, records: DataFrame, number: int) -> None:
        self.busy = True
        try:
            self._go_on()
            done = self._carry_batch(records, number)
            if done.positions:  # Spark begins with a batch even where there is nothing to read
                self.report(done)
        except SparkFailure as error:
            self.trouble = translated(error)
            raise RuntimeError(f"batch {number}: {type(error).__name__}") from None
        except BaseException as error:  # noqa: BLE001 (kept whole on our side: what crosses to Spark is text)
            self.trouble = error
            raise RuntimeError(f"batch {number}: {type(error).__name__}") from None
        finally:
            self.busy = False

    @property
    def _due(self) -> bool:
        return monotonic() - self._began > self.renew_after

    @property
    def _for_tasks(self) -> TaskTarget:
        return self.task_target or TaskTarget(self.target)

    def _go_on(self) -> None:
        if self.stop.is_set():
            raise Stopped
        if self._due:
            raise RenewalDue
        self._checked = self._aside.submit(self.before_batch)

    def _require_checked(self) -> None:
        """Before anything of the batch moves: the topic was asked while the batch was planned."""
        self._checked.result()

    def _carry_batch(self, records: DataFrame, number: int) -> BatchDone:
        spans = plan.spans_of(records)
        self._counts.clear()
        if any(partition not in self.tenure.positions for partition, _ in spans):
            raise PartitionsAdded
        try:
            landed = self._landed(records, spans)
        except SparkFailure as error:
            if of_a_time(error) and (place := self._search(records, spans).unreadable()):
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
        excluded = ExcludedRecords(self.transform.source)
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
        """Of records: offsets may be missing."""
        if (partition, span) not in self._counts:
            self._counts[partition, span] = self.transform.source.batch(self.spark, partition, span).count()
        return self._counts[partition, span]

    def _attempt(self, records: DataFrame, spans: plan.Spans, excluded: ExcludedRecords) -> tuple[Outcomes, Troubles]:
        made = self.transform.made(records)
        rows = self.transform.for_partitions(made)
        self.wide_node = None
        if plan.gives_nothing(rows) or not spans:  # an aggregate of nothing would be a row
            self._require_checked()
            return self._without_tasks(spans), []
        if isinstance(self.kind, TakesFrames):
            return self._whole(self.kind, (made, rows), records, spans, excluded)
        self.wide_node = plan.wide_node(rows)
        try:
            if choose_path(self.kind.capabilities, self.wide_node) is WritePath.STAGED:
                return self._by_stage(self.transform.for_stage(made), spans, excluded)
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
        return self._search(records, spans).find(failure, excluded.offsets())

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
            return self._frames(kind).carry(frame_of(self.transform, *frames, spans), spans, excluded.letters()), []
        except Poison as poison:  # of a key that is null
            return {}, [poison]
        except NotWritten as error:
            return {}, self._bad_records(error.failure, records, spans, excluded)

    def _frames(self, kind: TakesFrames) -> FrameWriter:
        if self._whole_batches is None:
            frames = FrameWriter(kind, self.guarantee, self.tenure, self.target, self.spark, self.see)
            self._whole_batches = self._open.enter_context(closing(frames))
        return self._whole_batches

    def _search(self, records: DataFrame, spans: plan.Spans) -> PoisonSearch:
        whole = isinstance(self.kind, TakesFrames)
        return PoisonSearch(self.transform, records, spans, self.transform.shape.most_bad, whole)

    def _by_tasks(self, rows: DataFrame, spans: plan.Spans, excluded: ExcludedRecords) -> tuple[Outcomes, Troubles]:
        self._by_driver.close()
        self._require_checked()
        writer = PartitionWriter(self._delivery, self._for_tasks, spans, excluded.letters())
        found = rows.mapInArrow(writer, RESULT_SCHEMA).collect()  # type: ignore[arg-type]
        self._by_driver.saw(spans, sum(row.bytes for row in found))
        outcomes = {TopicPartition(row.topic, row.partition): json.loads(row.outcome) for row in found}
        return _sorted_out({at: from_facts(one) if "error" in one else Landed(**one) for at, one in outcomes.items()})

    def _by_stage(self, rows: DataFrame, spans: plan.Spans, excluded: ExcludedRecords) -> tuple[Outcomes, Troubles]:
        provenance = self.transform.shape.provenance
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
            return self._frames(self.kind).carry(None, spans) if spans else {}
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
        raise _worst([trouble for trouble in troubles if not isinstance(trouble, Poison | Repeated)])
    return poisons


def _worst(troubles: list[FencepostError]) -> FencepostError:
    """The one that decides: being fenced ends a run whatever else happened, then what a person must fix."""
    order = {4: 0, 1: 1, 2: 1, 5: 2, 3: 3}
    return min(troubles, key=lambda error: order[error.exit_code])
