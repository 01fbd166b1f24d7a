"""A sink that keeps the positions itself: every batch goes through the delivery orders, behind the fence.

Batches of different partitions are under way at the same time, one of each, while the next ones are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.delivery import Observer, deliver
from fencepost.engines.data_loss import skip_gone
from fencepost.engines.listener import Skipped
from fencepost.engines.python.handler import PUT_BACK, HandlerFailed
from fencepost.engines.python.mirroring import GroupMirror
from fencepost.engines.python.offset_store import MemberHooks, Messages, resolve
from fencepost.engines.python.settings import COMMITTED, ConsumerSettings
from fencepost.errors import Fenced, FencepostError, Poison, Repeated
from fencepost.guarantee import Guarantee
from fencepost.kafka.offsets import TopicReader, set_command
from fencepost.model import Batch, Landed, Tenure, TopicPartition
from fencepost.rules.brake import Brake
from fencepost.sinks.kind import Store

LANES = 4  # batches under way at the same time
T = TypeVar("T")


RowMaker = Callable[[TopicPartition, Messages, Mapping[int, str]], Any]
"""What a store takes, made of a partition's messages, without those (offset and why) that go to the dead letters."""


@dataclass(frozen=True)
class SinkDelivery:
    """How batches get into a store."""

    guarantee: Guarantee
    open_store: Callable[[], Store]
    make_rows: RowMaker
    run: UUID
    brake: Brake | None = None  # records that cannot be delivered go to the dead letters; None: the first one stops
    on_takeover: Callable[[Tenure], object] = lambda _: None  # told after each takeover
    landed: Callable[[Batch[Any], Landed], object] = lambda _batch, _landed: None
    skipped: Callable[[Skipped], object] = lambda _: None
    sink: str = "this sink"  # what a pipeline file must say to be about the same positions

    def carry(self, batch: Batch[Messages], store: Store, see: Observer) -> Landed:
        """Deliver the batch; again without records that are bad, or there already, until the rest lands."""
        place, _ = batch.only_span()
        messages, bad = batch.rows, dict[int, str]()
        while True:
            try:
                rows = self.make_rows(place, messages, bad)
                landed = deliver(self.guarantee, Batch(batch.spans, rows, batch.tenure), store, store, see)
            except HandlerFailed as failed:
                if self.guarantee is Guarantee.AT_MOST_ONCE:  # else it would be Unknown
                    failed.remedy = PUT_BACK
                raise
            except Repeated as repeated:
                messages = _others(messages, repeated)
            except Poison as poison:
                found = dict(poison.records)
                if self.brake is None or bad.keys() >= found.keys():
                    raise
                bad |= found
                self.brake.require(place, len(batch.rows), bad)
            else:
                if self.brake is not None and not landed.already:
                    self.brake.landed(place, len(batch.rows), len(bad))
                return landed


def _others(messages: Messages, repeated: Repeated) -> Messages:
    """Those that are not there already. Raises it where that leaves all of them."""
    others = [message for message in messages if message.offset() not in repeated.offsets]
    if len(others) == len(messages):
        raise repeated
    return others


class StoreThread:
    """One thread with a store of its own."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._store = open_store()
        self._thread = ThreadPoolExecutor(1, "lane")

    def submit(self, work: Callable[[Store], T]) -> Future[T]:
        return self._thread.submit(work, self._store)

    def close(self) -> None:
        """Waits for what is under way."""
        self._thread.shutdown(wait=True)
        self._store.close()


class SinkOffsetStore:
    """Each member owns the positions of its own partitions."""

    processed_though_fenced = False

    def __init__(
        self,
        settings: ConsumerSettings,
        delivery: SinkDelivery,
        topic: TopicReader,
        hooks: MemberHooks,
        mirror: GroupMirror | None = None,
    ) -> None:
        self._settings = settings
        self._delivery = delivery
        self._topic = topic
        self._hooks = hooks
        self._mirror = mirror  # the group's offsets, for tools that watch lag; nobody of ours reads them
        self._tenures: dict[TopicPartition, Tenure] = {}
        self._under_way: dict[TopicPartition, tuple[Batch[Messages], Future[Landed]]] = {}
        self._rows = 0  # that landed, and nobody was told of yet
        self._lanes: list[StoreThread] = []
        try:
            for _ in range(LANES):
                self._lanes.append(StoreThread(delivery.open_store))
            self._lanes[0].submit(self._begin).result()
        except BaseException:
            self.close()
            raise

    def _lane(self, place: TopicPartition) -> StoreThread:
        """A partition's batches go the same way always: in order, and through a store that knows its position."""
        return self._lanes[(self._settings.topics.index(place.topic) + place.partition) % LANES]

    def _begin(self, store: Store) -> None:
        """The first member says where every partition starts, before it joins: `latest` means when the group began,
        and for a topic that is new to it when that was added."""
        if self._settings.start == COMMITTED:
            return
        stored = store.positions(self._settings.ledger)
        known = {at.topic for at in stored}
        if not known.issuperset(self._settings.topics):
            starts = self._topic.positions(stored, self._settings.start, self._settings.skip_gone).items()
            first = {at: position for at, position in starts if at.topic not in known}
            store.begin(self._settings.ledger, self._delivery.run, first, self._topic.topic_ids)

    def _take_over(self, store: Store, first: Mapping[TopicPartition, int]) -> Tenure:
        return store.take_over(self._settings.ledger, self._delivery.run, first, self._topic.topic_ids)

    # -- partitions

    def take(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        lanes = {lane: [at for at in partitions if self._lane(at) is lane] for lane in map(self._lane, partitions)}
        asked = {lane: lane.submit(partial(self._take, wanted=wanted)) for lane, wanted in lanes.items()}
        for lane, tenure in [(lane, each.result()) for lane, each in asked.items()]:
            if self._settings.skip_gone:
                tenure = lane.submit(partial(self._over_gaps, tenure)).result()  # noqa: PLW2901
            self._tenures |= dict.fromkeys(tenure.positions, tenure)
            self._delivery.on_takeover(tenure)
        self._show(lambda mirror: mirror.take(partitions))
        return {place: self._tenures[place].positions[place] for place in partitions}

    def _take(self, store: Store, wanted: list[TopicPartition]) -> Tenure:
        known = {at: found for at, found in store.positions(self._settings.ledger).items() if at in wanted}
        return self._take_over(store, resolve(self._topic, self._settings, wanted, known, self.set_command))

    def _over_gaps(self, tenure: Tenure, store: Store) -> Tenure:
        return skip_gone(self._topic, tenure, store, self._delivery.skipped)

    def give_back(self, partitions: set[TopicPartition], _finished: Batch[Messages] | None, seconds: float) -> None:
        """What is not committed by then is refused by the fence, and its next owner does it."""
        ours = [self._under_way[place][1] for place in partitions & self._under_way.keys()]
        wait(ours, seconds)
        try:
            for place in partitions & self._under_way.keys():
                if self._under_way[place][1].done():
                    self._land(place)
            self._show(lambda mirror: mirror.settle(partitions))
        finally:
            self.lose(partitions)

    def lose(self, partitions: set[TopicPartition]) -> None:
        for place in partitions:
            self._tenures.pop(place, None)
            self._under_way.pop(place, None)
        if self._mirror is not None:
            self._mirror.forget(partitions)

    # -- batches

    def deliver(self, batch: Batch[Messages]) -> Landed:
        """Under way on return, behind the partition's last one. Returns what landed since the last call."""
        place, _ = batch.only_span()
        if place in self._under_way:
            self._settle(place)
        if place not in self._tenures:
            raise Fenced(f"{batch}: its partition was reassigned to another member")
        owned = Batch(batch.spans, batch.rows, self._tenures[place])
        work = self._lane(place).submit(lambda store: self._delivery.carry(owned, store, self._hooks.see))
        self._under_way[place] = (batch, work)
        return self._told()

    def catch_up(self) -> Landed:
        for place in list(self._under_way):
            self._settle(place)
        return self._told()

    def waiting(self) -> set[TopicPartition]:
        return set(self._under_way)

    def _settle(self, place: TopicPartition) -> None:
        """Wait for it, with an ear to the group, which may ask the partition back meanwhile. Raises why it failed."""
        if place in self._under_way:
            work = self._under_way[place][1]
            self._hooks.patiently(lambda: wait([work]))
        if place in self._under_way:
            self._land(place)

    def _land(self, place: TopicPartition) -> None:
        """Of a failed one the partition keeps waiting, until it is asked where it stands."""
        batch, work = self._under_way[place]
        landed = work.result()
        del self._under_way[place]
        self._rows += landed.rows
        self._show(lambda mirror: mirror.advance(batch))
        self._delivery.landed(batch, landed)

    def _show(self, act: Callable[[GroupMirror], object]) -> None:
        """Whatever becomes of the mirror: what landed has landed."""
        if self._mirror is not None:
            with suppress(FencepostError):
                act(self._mirror)

    def _told(self) -> Landed:
        rows, self._rows = self._rows, 0
        return Landed(rows)

    def position(self, partition: TopicPartition) -> int:
        if partition in self._under_way:
            with suppress(FencepostError):  # whatever became of it, the store knows
                self._land(partition)
            self._under_way.pop(partition, None)
        return self._lane(partition).submit(lambda store: store.positions(self._settings.ledger)[partition]).result()

    def set_command(self, positions: Mapping[TopicPartition, int]) -> str:
        own = f"with a pipeline file of name {self._settings.group} and {self._delivery.sink}, "
        return ("" if self._settings.pipeline else own) + set_command(positions)

    def stands(self) -> Mapping[TopicPartition, int]:
        return self._lanes[0].submit(lambda store: store.positions(self._settings.ledger)).result()

    def answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        if self._mirror is not None:
            self._mirror.answered(error, partitions)

    def close(self) -> None:
        with ExitStack() as closing:
            for lane in self._lanes:
                closing.callback(lane.close)
