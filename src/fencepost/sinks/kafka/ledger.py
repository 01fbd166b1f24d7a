"""The ledger: a consumer group's offsets on the source partitions, with their owner in the metadata.

They are moved in transactions only, and read by consumers that never join the group. Not by the admin client: it ends
the whole process when the broker that coordinates the group dies while it asks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.errors import Fenced, FencepostError, Rewound, Unreachable
from fencepost.kafka.client import librdkafka_log
from fencepost.kafka.config.settings import outsider_settings
from fencepost.kafka.errors import failure
from fencepost.model import Batch, TopicPartition

GLANCE_SECONDS = 1.0  # for a transaction that is about to end
TIMEOUT_SECONDS = 60.0  # for brokers that come back
_OURS = {"enable.auto.commit": False, "enable.auto.offset.store": False}
_QUICK = {"retry.backoff.ms": "20"}  # how often it asks again while a transaction is about to end
_NOBODY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Stand:
    """What is stored for one source partition."""

    position: int
    run: UUID  # the owner
    epoch: int
    topic_id: str | None
    forgotten: bool = False  # a group's offset cannot be removed in a transaction: this one does not count any more

    @property
    def is_ours(self) -> bool:
        """Did a pipeline of ours store it?"""
        return self.run != _NOBODY

    def offset(self, partition: TopicPartition) -> DriverPartition:
        """As it goes into a transaction."""
        note = {"run": str(self.run), "epoch": self.epoch, "topic_id": self.topic_id}
        if self.forgotten:
            note["forgotten"] = True
        return DriverPartition(partition.topic, partition.partition, self.position, json.dumps(note))


Held = dict[TopicPartition, Stand]


class Group:
    """One pipeline's positions."""

    def __init__(self, kafka: Mapping[str, str], name: str) -> None:
        self.name = name
        self._kafka = kafka
        self._consumers: dict[str, Consumer] = {}

    @property
    def metadata(self) -> object:
        """What a transaction says of the group: that nobody of its members is speaking."""
        return self._consumer("read_committed").consumer_group_metadata()

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
        try:
            found = self._consumer("read_committed").list_topics(timeout=TIMEOUT_SECONDS).topics
        except KafkaException as error:
            raise self._failure(error) from error
        return [
            TopicPartition(name, number)
            for name, topic in found.items()
            if (name in wanted if wanted is not None else not name.startswith("__"))
            for number in topic.partitions
        ]

    def close(self) -> None:
        while self._consumers:
            self._consumers.popitem()[1].close()

    def _read(self, isolation: str, partitions: Iterable[TopicPartition], seconds: float) -> Held:
        wanted = [DriverPartition(at.topic, at.partition) for at in partitions]
        deadline = time.monotonic() + seconds
        while wanted:
            try:
                found = self._consumer(isolation).committed(wanted, timeout=max(deadline - time.monotonic(), 0.1))
            except KafkaException as error:
                if time.monotonic() < deadline:
                    continue
                raise self._failure(error) from error
            stands = {TopicPartition(one.topic, one.partition): _stand(one) for one in found if one.offset >= 0}
            return {partition: stand for partition, stand in stands.items() if not stand.forgotten}
        return {}

    def _failure(self, error: KafkaException) -> FencepostError:
        return failure(error.args[0], f"group {self.name}", str(self._kafka.get("bootstrap.servers", "")))

    def _consumer(self, isolation: str) -> Consumer:
        if isolation not in self._consumers:
            settings: dict[str, Any] = {**_QUICK, **outsider_settings(self._kafka), **_OURS}
            own = {"group.id": self.name, "isolation.level": isolation}
            self._consumers[isolation] = Consumer({**settings, **own}, logger=librdkafka_log)
        return self._consumers[isolation]


def _stand(found: DriverPartition) -> Stand:
    try:
        note = json.loads(found.metadata or "")
        forgotten = bool(note.get("forgotten", False))
        return Stand(found.offset, UUID(note["run"]), int(note["epoch"]), note["topic_id"], forgotten)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Stand(found.offset, _NOBODY, 0, None)


def compare(stand: Stand | None, batch: Batch[Any]) -> bool:
    """At the end (True) or at the start (False) of the batch, under its owner; else Fenced."""
    partition, span = batch.only_span()
    if stand is None or stand.run != batch.tenure.token:
        now = f"run {stand.run} (epoch {stand.epoch})" if stand and stand.is_ours else "nobody"
        raise Fenced(f"{batch}: {partition} is owned by {now}, not by run {batch.tenure.token}")
    if stand.position in (span.start, span.end):
        return stand.position == span.end
    kind: type[Fenced] = Rewound if stand.position < span.start else Fenced
    raise kind(f"{batch}: the stored position is {stand.position}")


def require_start(stand: Stand | None, batch: Batch[Any]) -> Stand:
    """What stands there, at the start of the batch and under its owner; else Fenced. An empty span is at both."""
    at_end = compare(stand, batch)
    _, span = batch.only_span()
    if stand is None or (at_end and span.start < span.end):
        raise Fenced(f"{batch}: the stored position is {span.end} already")
    return stand


def require_end(stand: Stand | None, batch: Batch[Any]) -> Stand:
    """What stands there, at the end of the batch and under its owner; else Fenced."""
    if not compare(stand, batch) or stand is None:
        raise Fenced(f"{batch}: the stored position is at its start already")
    return stand
