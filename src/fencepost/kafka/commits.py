"""The rules for committing a group's offsets, in one place.

One commit at a time is under way. librdkafka's own can overtake each other, and an older one that arrives last moves
the position back; even a synchronous commit is not safe from an asynchronous one before it. What failed is due with
the next one.

librdkafka repeats a request whose connection broke, and says so nowhere but in its statistics. The first copy may still
arrive, behind later ones. Only the brokers can refuse it: when the member that sent it has left the group, or the
producer has a new epoch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.kafka.errors import commit_failure, first_error
from fencepost.kafka.owned_consumer import OwnedConsumer
from fencepost.model import TopicPartition


class OneCommit:
    """A consumer's asynchronous commits. Its on_commit must call `answered`, which happens while it is polled."""

    def __init__(self, consumer: OwnedConsumer) -> None:
        self._consumer = consumer
        self.under_way = False

    def send(self, offsets: list[DriverPartition]) -> None:
        """Only when none is under way. Raises Fenced, Unknown or Unreachable where it was not even sent."""
        if self.under_way:
            raise AssertionError("a commit is under way already")
        try:
            self._consumer.commit(offsets, asynchronous=True)
        except KafkaException as error:
            raise commit_failure(error.args[0], "commit") from error
        self.under_way = True

    def answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> KafkaError | None:
        """Why it failed; None when all of it stands."""
        self.under_way = False
        return first_error(error, partitions)


def commit_now(consumer: OwnedConsumer, positions: Mapping[TopicPartition, int], mark: str = "") -> None:
    """A member's, waited for. Raises Fenced, Unknown or Unreachable; on return they stand."""
    try:
        answers = consumer.commit(driver_offsets(positions, mark), asynchronous=False) or []
    except KafkaException as error:
        raise commit_failure(error.args[0], "commit") from error
    failed = first_error(None, answers)
    if failed is not None:
        raise commit_failure(failed, "commit")


def committed(consumer: OwnedConsumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """A member's: what its group has committed; without the partitions of which it has nothing."""
    asked = [DriverPartition(place.topic, place.partition) for place in partitions]
    try:
        found = consumer.driver.committed(asked, timeout=30)
    except KafkaException as error:
        raise commit_failure(error.args[0], "read the group's positions") from error
    return {TopicPartition(at.topic, at.partition): at.offset for at in found if at.offset >= 0}


def driver_offsets(positions: Mapping[TopicPartition, int], mark: str = "") -> list[DriverPartition]:
    """`mark` goes with every offset, as its metadata."""
    return [DriverPartition(place.topic, place.partition, end, mark) for place, end in positions.items()]


def requests_sent(statistics: str, *names: str) -> Counter[str]:
    """How many requests of these names the client has sent, copies and all."""
    brokers = json.loads(statistics)["brokers"].values()
    return Counter({name: sum(broker["req"].get(name, 0) for broker in brokers) for name in names})
