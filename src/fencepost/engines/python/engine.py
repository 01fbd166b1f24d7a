"""The Python engine of a pipeline: one process, a member of the pipeline's own consumer group.

Start it several times, and the group shares the partitions out: each owns the positions of those that it was given.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from threading import Event
from time import monotonic
from typing import Any
from uuid import UUID

from fencepost.delivery import Observer
from fencepost.engines.listener import BatchDone, Listener, Started, Waiting
from fencepost.engines.python.columns import EventRows
from fencepost.engines.python.group_consumer import GroupConsumer
from fencepost.engines.python.member import Member
from fencepost.engines.python.mirroring import GroupMirror
from fencepost.engines.python.offset_store import MemberHooks, OffsetStore
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.engines.python.sink_offset_store import SinkDelivery, SinkOffsetStore
from fencepost.engines.python.target import RowTarget, open_target
from fencepost.errors import Unreachable, Usage
from fencepost.kafka.client import Cluster
from fencepost.kafka.names import group_of
from fencepost.kafka.offsets import TopicReader
from fencepost.model import Batch, Landed, Tenure, TopicPartition
from fencepost.rules.brake import Brake
from fencepost.sinks.kind import Store
from fencepost.spec import PipelineSpec

MOST_RECORDS = 20_000  # in hand at once, of all partitions: more of them take memory, and no less time
COLLECT_EVERY = 100_000  # new objects, for Python's garbage collector
LOOK_SECONDS = 1.0  # between two looks at the topic: is it the same, and where does it end?
MIRROR_SECONDS = 1.0


@dataclass
class PythonEngine:
    """Delivers a pipeline's batches in this process; its ledger is the sink itself."""

    spec: PipelineSpec
    settings: ConsumerSettings
    topic: TopicReader
    target: RowTarget
    ledger: Store
    stop: Event
    see: Observer
    brake: Brake | None = None

    def positions(self, stored: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """None yet: a member takes over what its group gives it."""
        if stored:
            self.ledger.require_same(self.spec.name, self.topic_ids())
            skip = self.settings.skip_gone
            self.topic.positions(stored, self.spec.source.start, skip)  # raises where records are gone
        return {}

    def topic_ids(self) -> Mapping[str, str]:
        return self.topic.topic_ids

    def landed(self, _runs: Collection[UUID], _first: Mapping[TopicPartition, int]) -> Landed | None:
        return None  # every batch that landed was told of

    def carry(self, tenure: Tenure, once: bool, report: Listener) -> None:
        progress = _Progress(self.topic, report)
        delivery = SinkDelivery(
            self.spec.guarantee,
            self.target.sink.open,
            self.target.make_rows,
            tenure.token,
            brake=self.brake,
            on_takeover=progress.on_takeover,
            landed=progress.landed,
            skipped=report,
        )

        def offset_store(consumer: GroupConsumer, topic: TopicReader, hooks: MemberHooks) -> OffsetStore:
            mirror = GroupMirror(consumer, MIRROR_SECONDS) if self.target.mirrored else None
            progress.mirror = mirror
            return SinkOffsetStore(self.settings, delivery, topic, hooks, mirror)

        def wait(trouble: str) -> None:
            report(Waiting(trouble, None))

        with _seldom_collecting():
            member = Member(self.settings, offset_store, self.stop, self.see, lambda _batch, _events: None, wait)
            done = member.run(once)
        if done.left is not None:
            report(done.left)


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Records in hand are some ten thousand objects, none of which is garbage: looking for it took a third of the time.

    What is in hand at once stays below that number, and goes as it came: so it is looked for when there is reason to.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(COLLECT_EVERY, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@dataclass
class _Progress:
    """What a member did, told as batches; now and then with a look at the topic."""

    topic: TopicReader
    report: Listener
    batches: int = 0
    reached: dict[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    looked: float = 0.0
    mirror: GroupMirror | None = None

    def on_takeover(self, tenure: Tenure) -> None:
        self.reached.update(tenure.positions)
        self.report(Started(tenure.token, tenure.epoch, tenure.positions))

    def landed(self, batch: Batch[Any], landed: Landed) -> None:
        place, span = batch.only_span()
        self.reached[place] = span.end
        self._look()
        lag = sum(max(self.ends[at] - position, 0) for at, position in self.reached.items() if at in self.ends)
        already = int(landed.already)
        self.report(
            BatchDone(
                self.batches,
                {place: span.end},
                span.end - span.start,
                landed.rows,
                landed.dead,
                already,
                lag=lag,
                complaint=self.mirror.complaint if self.mirror else "",
            )
        )
        self.batches += 1

    def _look(self) -> None:
        if monotonic() - self.looked < LOOK_SECONDS:
            return
        try:
            self.topic.require_same()
            self.ends = self.topic.ends(self.reached)
        except Unreachable:
            pass  # what landed has landed: only the display suffers
        self.looked = monotonic()


@contextmanager
def open_engine(spec: PipelineSpec, stop: Event, see: Observer) -> Iterator[PythonEngine]:
    """Check what can be checked before an event moves, cheapest first."""
    if "bootstrap.servers" not in spec.kafka:
        raise Usage("kafka.bootstrap.servers is not set", "set it, or start the local stack with `fencepost up`")
    rows = EventRows.of(spec)
    settings = consumer_settings(spec)
    with Cluster(spec.kafka) as cluster:
        topic = TopicReader(cluster, *spec.source.origins)
        target = open_target(spec, rows)
        with closing(target.sink.open()) as ledger:
            yield PythonEngine(spec, settings, topic, target, ledger, stop, see, spec.brake)


def consumer_settings(spec: PipelineSpec) -> ConsumerSettings:
    return ConsumerSettings(
        spec.kafka,
        spec.source.origins[0],
        group_of(spec.name),
        spec.guarantee,
        start=spec.source.start,
        batch=min(spec.batch.records, MOST_RECORDS),
        skip_gone=not spec.source.fail_on_data_loss,
        also=spec.source.origins[1:],
        pipeline=spec.name,
    )
