"""The Spark engine of a pipeline: session, transform, table and topic, opened and checked once per run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from math import inf
from threading import Event
from typing import Any, TypeVar
from uuid import UUID

from pyspark.sql import SparkSession

from fencepost.delivery import Observer
from fencepost.engines.data_loss import skip_gone
from fencepost.engines.listener import BatchDone, Listener
from fencepost.engines.spark.authentication import runs_here
from fencepost.engines.spark.batches import BatchCarrier
from fencepost.engines.spark.ownership import Guard, guard_of
from fencepost.engines.spark.plan import wide_node
from fencepost.engines.spark.prepared import prepared
from fencepost.engines.spark.secrets import TaskTarget
from fencepost.engines.spark.session import session_for
from fencepost.engines.spark.source import KafkaSource
from fencepost.engines.spark.stateful.rows import StreamRows, resolve_stream
from fencepost.engines.spark.stream import BatchStream
from fencepost.engines.spark.transform import Transform, resolve
from fencepost.errors import Unreachable, Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.mirror import Mirror
from fencepost.kafka.names import group_of
from fencepost.kafka.offsets import TopicReader
from fencepost.model import Landed, Span, Tenure, TopicPartition
from fencepost.rules.brake import Brake
from fencepost.sinks.kind import (
    ForgetsPositions,
    RemembersBatches,
    Store,
    Target,
    require_streams,
)
from fencepost.spec import PipelineSpec

C = TypeVar("C")


@dataclass
class SparkEngine:
    """Delivers a pipeline's batches on Spark; its ledger is the sink itself."""

    spec: PipelineSpec
    spark: SparkSession
    transform: Transform | StreamRows
    topic: TopicReader
    mirror: Mirror | None  # None: the group's offsets are the ledger
    target: Target
    task_target: TaskTarget  # the same, for the tasks
    ledger: Store
    stop: Event
    see: Observer
    brake: Brake | None = None
    renew_after: float = inf  # seconds

    def positions(self, stored: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.ledger.require_same(self.spec.name, self.topic_ids())
        return self.topic.positions(stored, self.spec.source.start, skip_gone=self._skips)

    @property
    def _skips(self) -> bool:
        return not self.spec.source.fail_on_data_loss

    def topic_ids(self) -> Mapping[str, str]:
        return self.topic.topic_ids

    def landed(self, runs: Collection[UUID], first: Mapping[TopicPartition, int]) -> Landed | None:
        kind = self.spec.sink.kind
        if self.spec.guarantee is not Guarantee.EXACTLY_ONCE or not isinstance(kind, RemembersBatches):
            return None  # rows and positions were committed apart, or nobody wrote them down
        try:
            return kind.landed(self.ledger, self.spec.name, runs, first)
        except Unreachable:
            return None

    def carry(self, tenure: Tenure, once: bool, report: Listener) -> None:
        if self._skips:
            with closing(self.target.open()) as store:
                tenure = skip_gone(self.topic, tenure, store, report)
        reached = dict(tenure.positions)

        def landed(done: BatchDone) -> None:
            reached.update(done.positions)
            if self.mirror is not None:
                self.mirror.show(done.positions)
                done = replace(done, complaint=self.mirror.complaint)
            report(replace(done, lag=self._lag(reached)))
            self.topic.require_same()

        stream = self._stream(tenure, landed, report)
        stream.carry(once, f"{self.spec.batch.every.total_seconds():g} seconds")

    def _stream(self, tenure: Tenure, landed: Callable[[BatchDone], None], tell: Listener) -> BatchStream:
        return BatchStream(
            self._carrier(BatchCarrier, tenure),
            self.transform.source,
            report=landed,
            tell=tell,
            guard=self._guard(tenure),
            stop=self.stop,
            renew_after=self.renew_after,
        )

    def _carrier(self, make: Callable[..., C], tenure: Tenure, **more: Any) -> C:
        return make(
            self.spark,
            self.transform,
            self.spec.guarantee,
            self.spec.sink.kind,
            self.target,
            tenure,
            before_batch=self._before_batch,
            require_readable=self._require_readable,
            see=self.see,
            task_target=self.task_target,
            small=self.spec.batch.small,
            brake=self.brake,
            **more,
        )

    def _guard(self, tenure: Tenure) -> Guard:
        return lambda: guard_of(self.spec.sink.kind, self.target, tenure)

    def _before_batch(self) -> None:
        """A gap is found before any position of the batch moves: then nothing but what is gone is skipped."""
        self.topic.require_same()
        if self._skips:
            self._require_readable({})

    def _require_readable(self, spans: Mapping[TopicPartition, Span]) -> None:
        """Raises RecordsGone. Where the position moves first it says nothing any more, but the batch's start does."""
        stored = self.ledger.positions(self.spec.name)
        starts = {at: span.start for at, span in spans.items()} if self._skips else {}
        self.topic.positions({**stored, **starts}, self.spec.source.start)

    def _lag(self, positions: Mapping[TopicPartition, int]) -> int | None:
        try:
            ends = self.topic.ends(positions)
        except Unreachable:
            return None  # what landed has landed: only the display suffers
        return sum(max(end - positions[at], 0) for at, end in ends.items())


@contextmanager
def open_engine(spec: PipelineSpec, stop: Event, see: Observer) -> Iterator[SparkEngine]:
    """Open everything, cheapest first, and check what can be checked before an event moves."""
    if "bootstrap.servers" not in spec.kafka:
        raise Usage("kafka.bootstrap.servers is not set", "set it, or start the local stack with `fencepost up`")
    with Cluster(spec.kafka) as cluster, _opened(spec, TopicReader(cluster, *spec.source.origins), stop, see) as engine:
        yield engine


@contextmanager
def _opened(spec: PipelineSpec, topic: TopicReader, stop: Event, see: Observer) -> Iterator[SparkEngine]:
    kind = spec.sink.kind
    if spec.checkpoint is not None:
        require_streams(kind)
    with closing(kind.ledger(spec.job)) as ledger:
        ledger.positions(spec.name)  # does it answer? Before Spark is started
    with (
        session_for(spec) as spark,
        _mirror(spec) as mirror,
    ):
        transform, node = _resolved(spark, spec)
        with prepared(spec, transform, node, runs_here(spark.sparkContext.master or "")) as sink:
            engine = _made(spec)(
                spec, spark, transform, topic, mirror, sink.target, sink.task_target, sink.ledger, stop, see, spec.brake
            )
            if isinstance(kind, ForgetsPositions):
                engine.renew_after = kind.expires_after(spec.job) / 4
            yield engine


def _resolved(spark: SparkSession, spec: PipelineSpec) -> tuple[Transform | StreamRows, str | None]:
    """What makes the rows, and the part of it that mixes partitions."""
    source = KafkaSource(spec.source, spec.kafka, spec.batch.records)
    if spec.checkpoint is not None:
        rows = resolve_stream(spark, spec, source)
        return rows, rows.keeps
    transform = resolve(spark, spec, source)
    return transform, wide_node(transform.apply(transform.source.empty(spark)))


def _made(spec: PipelineSpec) -> type[SparkEngine]:
    if spec.checkpoint is None:
        return SparkEngine
    from fencepost.engines.spark.stateful.engine import StateEngine

    return StateEngine


@contextmanager
def _mirror(spec: PipelineSpec) -> Iterator[Mirror | None]:
    """The group's offsets show the positions to other tools, unless they are the positions."""
    if spec.sink.kind.capabilities.group_ledger:
        yield None
        return
    with closing(Mirror(spec.kafka, group_of(spec.name))) as mirror:
        yield mirror
