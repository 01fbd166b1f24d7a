"""Where a member's positions are kept, and the order in which they and the work are done.

In the group, for a handler whose effects are its own: at most once and at least once. In the sink itself, where each
member owns the positions of its own partitions: all three, exactly once among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from threading import Event as Flag
from typing import Any, Protocol
from uuid import UUID

from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.cluster.positions import TopicReader
from fencepost.consuming.commits import (
    AsyncCommits,
)
from fencepost.consuming.handling import Patiently
from fencepost.consuming.settings import COMMITTED, ConsumerSettings
from fencepost.delivery import AtomicSink, Observer, deliver
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

    def catch_up(self) -> Landed:
        """Process what was taken by `deliver` and could not be yet. Raises as that does."""

    def waiting(self) -> set[TopicPartition]:
        """The partitions of which something was taken and is not processed yet."""

    def position(self, partition: TopicPartition) -> int:
        """Where it stands now: what to read again after trouble."""

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
    hear: Callable[[], None]  # lets answers come in, for a moment


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
    took: Callable[[Tenure], object] = lambda _: None  # told after each takeover
    landed: Callable[[Batch[Any], Landed], object] = lambda _batch, _landed: None


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
        self._carriage.took(tenure)
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
            self._carriage.landed(batch, landed)
            return landed

    def _delivered(self, batch: Batch[Any]) -> Landed:
        store, see = self._store, self._aside.see
        landed: Landed = self._aside.patiently(lambda: deliver(self._carriage.guarantee, batch, store, store, see))
        return landed

    def catch_up(self) -> Landed:
        return Landed(rows=0)

    def waiting(self) -> set[TopicPartition]:
        return set()

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
