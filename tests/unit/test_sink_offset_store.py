"""A member over a sink that keeps positions: what the mirror of the positions must never do to it."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any, ClassVar, cast
from uuid import UUID, uuid4

import pytest

from fencepost.delivery import nobody
from fencepost.engines.python.handler import IN_DOUBT, PUT_BACK, HandlerFailed
from fencepost.engines.python.mirroring import GroupMirror
from fencepost.engines.python.offset_store import MemberHooks
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.engines.python.sink_offset_store import SinkDelivery, SinkOffsetStore
from fencepost.errors import Fenced, Unknown, Unreachable
from fencepost.fence import require_same_topics
from fencepost.guarantee import Guarantee
from fencepost.kafka.offsets import TopicReader
from fencepost.model import Batch, Landed, Span, Tenure, TopicPartition
from fencepost.sinks.memory.store import Memory, MemoryStore

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
        require_same_topics(pipeline, self.stored(pipeline), topic_ids)

    def set_positions(self, *_given: object) -> None: ...

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
    delivery = SinkDelivery(
        Guarantee.EXACTLY_ONCE,
        lambda: Store(memory),
        lambda _place, messages, _hooks: messages,
        uuid4(),
        landed=lambda _batch, landed: told.append(landed),
    )
    settings = ConsumerSettings({}, "orders", "mail", Guarantee.EXACTLY_ONCE)
    aside = MemberHooks(Event(), lambda work: work(), nobody, lambda: None)
    mirror = cast(GroupMirror, Broken())
    keeper = SinkOffsetStore(settings, delivery, cast(TopicReader, Topic()), aside, mirror)
    keeper.take([ORDERS])
    for start in (0, 2):
        batch: Batch[Any] = Batch({ORDERS: Span(start, start + 2)}, [start, start + 1], Tenure("mail", uuid4(), 0, {}))
        keeper.deliver(batch)
    keeper.catch_up()
    keeper.give_back({ORDERS}, None, 1.0)
    keeper.close()
    assert memory.rows == [0, 1, 2, 3]
    assert told == [Landed(2), Landed(2)]


def test_what_is_under_way_is_waited_for_as_long_as_there_is_time_and_no_longer() -> None:
    memory, go_on, told = Memory(), Event(), list[Landed]()
    delivery = SinkDelivery(
        Guarantee.EXACTLY_ONCE,
        lambda: Store(memory),
        lambda _place, messages, _hooks: messages if go_on.wait(30) else [],
        uuid4(),
        landed=lambda _batch, landed: told.append(landed),
    )
    settings = ConsumerSettings({}, "orders", "mail", Guarantee.EXACTLY_ONCE, revoke_seconds=30.0)
    aside = MemberHooks(Event(), lambda work: work(), nobody, lambda: None)
    keeper = SinkOffsetStore(settings, delivery, cast(TopicReader, Topic()), aside)
    keeper.take([ORDERS])
    batch: Batch[Any] = Batch({ORDERS: Span(0, 2)}, [0, 1], Tenure("mail", uuid4(), 0, {}))
    keeper.deliver(batch)
    keeper.give_back({ORDERS}, None, 0.0)
    assert not go_on.is_set()  # it did not wait for that
    assert keeper.waiting() == set()
    go_on.set()
    keeper.close()
    assert told == []  # of what it gave up nobody is told


class Failing(Store):
    """Its handler raises; `lost`: and then nobody answers."""

    lost = False

    def write(self, batch: Batch[Any]) -> Landed:
        raise HandlerFailed(f"the handler raised for {batch}", IN_DOUBT)

    def retreat(self, batch: Batch[Any]) -> None:
        if self.lost:
            raise Unreachable("nobody answers")
        super().retreat(batch)


def carried(store: Store) -> None:
    """One batch at most once, from 0 to 2."""
    run = uuid4()
    store.take_over("mail", run, {ORDERS: 0}, {})
    delivery = SinkDelivery(Guarantee.AT_MOST_ONCE, lambda: store, lambda _place, messages, _hooks: messages, run)
    delivery.carry(Batch({ORDERS: Span(0, 2)}, [], Tenure("mail", run, 1, {ORDERS: 0})), store, nobody)


def test_at_most_once_a_handler_that_fails_is_told_that_the_position_was_put_back() -> None:
    store = Failing(Memory())
    with pytest.raises(HandlerFailed) as failed:
        carried(store)
    assert failed.value.remedy == PUT_BACK
    assert store.positions("mail") == {ORDERS: 0}


def test_at_most_once_a_handler_that_fails_is_told_that_the_position_may_not_be_put_back() -> None:
    store = Failing(Memory())
    store.lost = True
    with pytest.raises(Unknown, match="the position moved first") as failed:
        carried(store)
    assert failed.value.remedy == IN_DOUBT
    assert store.positions("mail") == {ORDERS: 2}
