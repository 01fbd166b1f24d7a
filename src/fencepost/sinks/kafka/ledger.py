"""The ledger: a consumer group's offsets on the source partitions, with their owner in the metadata.

They are moved in transactions only, and read by consumers that never join the group.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from confluent_kafka import TopicPartition as DriverPartition

from fencepost.errors import Unreachable
from fencepost.fence import StoredPosition
from fencepost.kafka.standalone_consumer import StandaloneConsumer
from fencepost.model import TopicPartition

GLANCE_SECONDS = 1.0  # for a transaction that is about to end
TIMEOUT_SECONDS = 60.0  # for brokers that come back


def offset_of(partition: TopicPartition, stored: StoredPosition, *, forgotten: bool = False) -> DriverPartition:
    """As it goes into a transaction. A group's offset cannot be removed in one: `forgotten` says that it is void."""
    note: dict[str, Any] = {"run": str(stored.owner), "epoch": stored.epoch, "topic_id": stored.topic_id}
    if stored.begun is not None:
        note["begun"] = stored.begun
    if forgotten:
        note["forgotten"] = True
    return DriverPartition(partition.topic, partition.partition, stored.position, json.dumps(note))


Held = dict[TopicPartition, StoredPosition]


class Group:
    """One pipeline's positions."""

    def __init__(self, kafka: Mapping[str, str], name: str) -> None:
        self.name = name
        self._kafka = kafka
        self._consumers: dict[str, StandaloneConsumer] = {}

    @property
    def metadata(self) -> object:
        """What a transaction says of the group: that nobody of its members is speaking."""
        return self._consumer("read_committed").driver.consumer_group_metadata()

    def settled(self, partitions: Iterable[TopicPartition], seconds: float = TIMEOUT_SECONDS) -> Held:
        """What is stored, as soon as no open transaction holds any of it. Raises Unreachable when that takes longer."""
        return self._read("read_committed", partitions, seconds)

    def seen(self, partitions: Iterable[TopicPartition]) -> Held:
        """The same, or what was committed last where a transaction stays open."""
        wanted = list(partitions)
        found = self.glance(wanted)
        return self._read("read_uncommitted", wanted, TIMEOUT_SECONDS) if found is None else found

    def glance(self, partitions: Iterable[TopicPartition]) -> Held | None:
        """What is stored, or None where it is not settled within a moment."""
        try:
            return self.settled(partitions, GLANCE_SECONDS)
        except Unreachable:
            return None

    def partitions(self, topics: Iterable[str] | None = None) -> list[TopicPartition]:
        """Every partition of these topics, or of all that this user may see."""
        wanted = None if topics is None else set(topics)
        found = self._consumer("read_committed").partitions(TIMEOUT_SECONDS)
        return [at for at in found if (at.topic in wanted if wanted is not None else not at.topic.startswith("__"))]

    def close(self) -> None:
        while self._consumers:
            self._consumers.popitem()[1].close()

    def _read(self, isolation: str, partitions: Iterable[TopicPartition], seconds: float) -> Held:
        found = self._consumer(isolation).stored(partitions, seconds)
        return {at: stored for at, one in found.items() if (stored := _stored(one)) is not None}

    def _consumer(self, isolation: str) -> StandaloneConsumer:
        if isolation not in self._consumers:
            self._consumers[isolation] = StandaloneConsumer(self._kafka, self.name, isolation)
        return self._consumers[isolation]


def _stored(found: DriverPartition) -> StoredPosition | None:
    """None: it was forgotten. Without an owner: somebody else committed it."""
    try:
        note = json.loads(found.metadata or "")
        if note.get("forgotten", False):
            return None
        begun = note.get("begun")
        epoch, first = int(note["epoch"]), None if begun is None else int(begun)
        return StoredPosition(found.offset, UUID(note["run"]), epoch, note["topic_id"], begun=first)
    except (ValueError, KeyError, TypeError, AttributeError):
        return StoredPosition(found.offset, None, 0)
