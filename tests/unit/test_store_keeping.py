"""A member over a sink that keeps positions: what the mirror of the positions must never do to it."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any, ClassVar, cast
from uuid import UUID, uuid4

from fencepost.cluster.positions import TopicReader
from fencepost.consuming.keeping import Aside
from fencepost.consuming.mirroring import GroupMirror
from fencepost.consuming.settings import ConsumerSettings
from fencepost.consuming.store_keeping import Carriage, StoreKeeper
from fencepost.delivery import nobody
from fencepost.errors import Fenced, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Span, Tenure, TopicPartition
from fencepost.sinks.memory import Memory, MemoryStore

ORDERS = TopicPartition("orders", 0)


class Topic:
    """As much of a topic as is asked for here."""

    topic_ids: ClassVar = {"orders": "id"}

    def positions(self, _stored: object, _start: object, _skip_gone: bool = False) -> dict[TopicPartition, int]:
        return {ORDERS: 0}

    def bounds(self, _partitions: object) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        return {ORDERS: 0}, {ORDERS: 100}


class Store(MemoryStore):
    def begin(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> None:
        self.take_over(pipeline, run, first, topic_ids)

    def require_same(self, pipeline: str, topic_ids: Mapping[str, str]) -> None:
        self._same_topics(pipeline, topic_ids)

    def close(self) -> None: ...


class Broken:
    """A group that takes no offsets."""

    def advance(self, _batch: object) -> None:
        raise Unreachable("nobody answers")

    def take(self, _partitions: object) -> None:
        raise Unreachable("nobody answers")

    def settle(self, _partitions: object) -> None:
        raise Fenced("the group has another generation")

    def forget(self, _partitions: object) -> None: ...


def test_a_mirror_that_fails_holds_nothing_up_and_every_batch_is_told() -> None:
    memory, told = Memory(), list[Landed]()
    carriage = Carriage(
        Guarantee.EXACTLY_ONCE,
        lambda: Store(memory),
        lambda _place, messages, _aside: messages,
        uuid4(),
        landed=lambda _batch, landed: told.append(landed),
    )
    settings = ConsumerSettings({}, "orders", "mail", Guarantee.EXACTLY_ONCE)
    aside = Aside(Event(), lambda work: work(), nobody, lambda: None)
    mirror = cast(GroupMirror, Broken())
    keeper = StoreKeeper(settings, carriage, cast(TopicReader, Topic()), aside, mirror)
    keeper.take([ORDERS])
    for start in (0, 2):
        batch: Batch[Any] = Batch({ORDERS: Span(start, start + 2)}, [start, start + 1], Tenure("mail", uuid4(), 0, {}))
        keeper.deliver(batch)
    keeper.catch_up()
    keeper.give_back({ORDERS}, None)
    keeper.close()
    assert memory.rows == [0, 1, 2, 3]
    assert told == [Landed(2), Landed(2)]
