"""Where a member's positions are kept, and the order in which they and the work are done.

In the group, for a handler whose effects are its own: at most once and at least once. In the sink itself, where each
member owns the positions of its own partitions: all three, exactly once among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from threading import Event as Flag
from typing import Any, Protocol
from uuid import UUID

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.cluster.positions import TopicReader
from fencepost.consuming.commits import (
    AsyncCommits,
    Commit,
    CommitStyle,
    StoredCommits,
    SyncCommits,
    commit_now,
    stored,
)
from fencepost.consuming.handling import Handler, HandlerSink, Patiently
from fencepost.consuming.settings import COMMITTED, ConsumerSettings
from fencepost.delivery import AtomicSink, Observer, at_least_once, at_most_once, deliver
from fencepost.errors import Fenced, Poison, PositionLost, RecordsGone
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Tenure, TopicPartition

Messages = list[Message]


class Keeper(Protocol):
    """The positions of the partitions that a member owns."""

    def take(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """They are ours now: where to read on. Raises RecordsGone where the topic does not hold that any more."""

    def deliver(self, batch: Batch[Messages]) -> Landed:
        """Process the batch and move the position, in the order of the guarantee. Raises Fenced when it is not ours."""

    def position(self, partition: TopicPartition) -> int:
        """Where it stands now."""

    def give_back(self, partitions: set[TopicPartition], finished: Batch[Messages] | None) -> None:
        """They are asked back: everything that is done is durable on return, the batch in hand if it was finished."""

    def lose(self, partitions: set[TopicPartition]) -> None:
        """Somebody else has them already."""

    def answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        """An asynchronous commit was answered."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Aside:
    """What a keeper needs of its member."""

    stop: Flag
    patiently: Patiently
    see: Observer


class GroupKeeper:
    """The consumer group's own offsets."""

    def __init__(
        self, settings: ConsumerSettings, consumer: Consumer, topic: TopicReader, handler: Handler, aside: Aside
    ) -> None:
        self._settings = settings
        self._consumer = consumer
        self._topic = topic
        self._sink = HandlerSink(handler, settings.retries, aside.stop, aside.patiently)
        self._see = aside.see
        self._owned: set[TopicPartition] = set()
        self._finished: Batch[Messages] | None = None  # committed when its partitions were asked back
        self._style = _style(settings, consumer)
        self._begin()

    def _begin(self) -> None:
        """The first member says where every partition starts, before it joins: `latest` means when the group began."""
        every = self._topic.require_same()
        if self._settings.start != COMMITTED and not stored(self._consumer, every):
            with suppress(Fenced):  # others are members already, and have said so
                commit_now(self._consumer, self._topic.positions({}, self._settings.start))

    def take(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        known = stored(self._consumer, partitions)
        starts = resolve(self._topic, self._settings, partitions, known)
        fresh = {place: position for place, position in starts.items() if place not in known}
        if fresh:
            commit_now(self._consumer, fresh)  # resolved again after a crash, `latest` could skip
        self._owned |= set(partitions)
        return starts

    def deliver(self, batch: Batch[Messages]) -> Landed:
        order = at_most_once if self._settings.guarantee is Guarantee.AT_MOST_ONCE else at_least_once
        return order(batch, self._sink, self, self._see) if batch.rows else self._over_nothing(batch)

    def _over_nothing(self, batch: Batch[Messages]) -> Landed:
        """Markers only: nothing to process, and a position that moves."""
        self.advance(batch)
        return Landed(rows=0)

    def advance(self, batch: Batch[Any]) -> None:
        """The delivery orders' `Progress`: nothing is committed of partitions that went away meanwhile."""
        if batch is self._finished:
            return
        if not set(batch.spans) <= self._owned:
            raise Fenced(f"{batch}: its partitions were given to another member")
        self._style.advance(batch)

    def position(self, partition: TopicPartition) -> int:
        return stored(self._consumer, [partition]).get(partition, 0)

    def give_back(self, partitions: set[TopicPartition], finished: Batch[Messages] | None) -> None:
        try:
            if finished is not None and self._settings.guarantee is Guarantee.AT_LEAST_ONCE:
                self._style.advance(finished)
                self._finished = finished
            self._style.settle(partitions)
        finally:
            self.lose(partitions)

    def lose(self, partitions: set[TopicPartition]) -> None:
        self._owned -= partitions
        self._style.forget(partitions)

    def answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        if isinstance(self._style, AsyncCommits):
            self._style.answered(error, partitions)

    def close(self) -> None:
        """The consumer is its owner's to close."""


def _style(settings: ConsumerSettings, consumer: Consumer) -> CommitStyle:
    match settings.commit:
        case Commit.SYNC:
            return SyncCommits(consumer, settings.every)
        case Commit.ASYNC:
            return AsyncCommits(consumer, settings.every)
        case Commit.AUTO:
            return StoredCommits(consumer)


class Store(AtomicSink[Any], Protocol):
    """A sink that keeps positions."""

    def close(self) -> None: ...


RowMaker = Callable[[TopicPartition, Messages, Mapping[int, str]], Any]
"""What a store takes, made of a partition's messages, without those (offset and why) that go to the dead letters."""


@dataclass(frozen=True)
class Carriage:
    """How batches get into a store."""

    guarantee: Guarantee
    open_store: Callable[[], Store]
    make_rows: RowMaker
    run: UUID
    put_aside: bool = False  # a record that cannot be carried goes to the dead letters, and the rest lands


class StoreKeeper:
    """The sink's own ledger: every batch goes through the delivery orders, behind the fence."""

    def __init__(
        self,
        settings: ConsumerSettings,
        carriage: Carriage,
        topic: TopicReader,
        aside: Aside,
        mirror: AsyncCommits | None = None,
    ) -> None:
        self._settings = settings
        self._carriage = carriage
        self._topic = topic
        self._aside = aside
        self._mirror = mirror  # the group's offsets, for tools that watch lag; nobody of ours reads them
        self._tenures: dict[TopicPartition, Tenure] = {}
        self._store = carriage.open_store()
        self._begin()

    def _begin(self) -> None:
        """The first member says where every partition starts, before it joins: `latest` means when the group began."""
        if self._settings.start != COMMITTED and not self._store.positions(self._settings.group):
            self._take_over(self._store, self._topic.positions({}, self._settings.start))

    def _take_over(self, store: Store, first: Mapping[TopicPartition, int]) -> Tenure:
        ids = {self._topic.topic: self._topic.topic_id}
        return store.take_over(self._settings.group, self._carriage.run, first, ids)

    def take(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        with closing(self._carriage.open_store()) as store:  # a batch in hand has the other one
            known = {at: found for at, found in store.positions(self._settings.group).items() if at in partitions}
            tenure = self._take_over(store, resolve(self._topic, self._settings, partitions, known))
        self._tenures |= dict.fromkeys(partitions, tenure)
        return {place: tenure.positions[place] for place in partitions}

    def deliver(self, batch: Batch[Messages]) -> Landed:
        place, _ = batch.only_span()
        if place not in self._tenures:
            raise Fenced(f"{batch}: its partition was given to another member")
        tenure = self._tenures[place]
        bad: dict[int, str] = {}
        while True:
            rows = self._carriage.make_rows(place, batch.rows, bad)
            try:
                landed = self._delivered(Batch(batch.spans, rows, tenure))
            except Poison as poison:
                if not self._carriage.put_aside or bad.keys() >= dict(poison.records).keys():
                    raise
                bad |= dict(poison.records)
                continue
            if self._mirror is not None:
                self._mirror.advance(batch)
            return landed

    def _delivered(self, batch: Batch[Any]) -> Landed:
        store, see = self._store, self._aside.see
        landed: Landed = self._aside.patiently(lambda: deliver(self._carriage.guarantee, batch, store, store, see))
        return landed

    def position(self, partition: TopicPartition) -> int:
        return self._store.positions(self._settings.group)[partition]

    def give_back(self, partitions: set[TopicPartition], _finished: Batch[Messages] | None) -> None:
        """What is not committed yet is rolled back by the fence, and its next owner does it."""
        try:
            if self._mirror is not None:
                self._mirror.settle(partitions)
        finally:
            self.lose(partitions)

    def lose(self, partitions: set[TopicPartition]) -> None:
        for place in partitions:
            self._tenures.pop(place, None)
        if self._mirror is not None:
            self._mirror.forget(partitions)

    def answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        if self._mirror is not None:
            self._mirror.answered(error, partitions)

    def close(self) -> None:
        self._store.close()


def resolve(
    topic: TopicReader,
    settings: ConsumerSettings,
    partitions: list[TopicPartition],
    known: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The stored positions, and for the other partitions where to start. Out of range is an error, never a jump."""
    first, ends = topic.bounds(partitions)
    for place, position in known.items():
        if not first[place] <= position <= ends[place]:
            raise RecordsGone(
                f"{place}: the stored position is {position}, and the topic holds {first[place]} to {ends[place]}",
                "to go on without what is gone set the position",
            )
    if len(known) == len(partitions):
        return dict(known)
    if settings.start == COMMITTED:
        raise PositionLost(
            f"group {settings.group!r} has no position in {settings.topic!r}", "start at earliest, latest or a time"
        )
    # all partitions that there were got a position when the group began: these came later, and nobody has read them
    fresh = topic.positions({}, "earliest" if settings.start == "latest" else settings.start)
    return {place: known.get(place, fresh[place]) for place in partitions}
