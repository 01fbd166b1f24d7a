"""A member's positions as its group's offsets, for tools that watch lag. Nobody of ours reads them."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.engines.python.commits import AsyncCommits
from fencepost.kafka.mirror import MARK, foreign
from fencepost.kafka.owned_consumer import OwnedConsumer
from fencepost.model import Batch, TopicPartition

LOOK_SECONDS = 5.0


class GroupMirror:
    """Offsets that somebody else committed are never written over: their partitions are not shown then."""

    def __init__(self, consumer: OwnedConsumer, every: float) -> None:
        self._consumer = consumer
        self._commits = AsyncCommits(consumer, every, MARK)
        self._ours: set[TopicPartition] = set()
        self.complaint = ""  # why positions are not shown, if they are not

    def take(self, partitions: Iterable[TopicPartition]) -> None:
        """They are ours now: may they be shown? Only here may the group be asked, not while partitions are revoked."""
        asked = [DriverPartition(at.topic, at.partition) for at in partitions]
        try:
            found = self._consumer.driver.committed(asked, timeout=LOOK_SECONDS)
        except KafkaException as error:
            self.complaint = error.args[0].str()
            return
        others = foreign(found)
        self._ours |= {TopicPartition(at.topic, at.partition) for at in found} - others
        if others:
            self.complaint = f"the group has offsets that are not ours, on {', '.join(map(str, sorted(others)))}"

    def advance(self, batch: Batch[object]) -> None:
        if batch.spans.keys() <= self._ours:
            self._commits.advance(batch)

    def settle(self, partitions: set[TopicPartition]) -> None:
        self._commits.settle(partitions & self._ours)

    def forget(self, partitions: set[TopicPartition]) -> None:
        self._commits.forget(partitions)
        self._ours -= partitions

    def answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        self._commits.answered(error, partitions)
