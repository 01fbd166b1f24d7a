"""Where a source stands: a group's offset on the target topic, with the place in its metadata.

The offset itself stays 0, so that lag tools show no nonsense. The group never has members.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.errors import PositionLost, Unknown, Usage
from fencepost.kafka.client import librdkafka_log
from fencepost.kafka.config.settings import outsider_settings
from fencepost.kafka.errors import failure
from fencepost.producing.producer import Producer
from fencepost.producing.sources.source import Place

LONGEST = 4095  # bytes of metadata that a broker takes by default
ANSWER_SECONDS = 10.0
TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.05


class Bookmark:
    """One source's place. Read and written by one producer at a time; under exactly-once the brokers see to that."""

    def __init__(self, kafka: Mapping[str, str], topic: str, group: str) -> None:
        self.group = group
        self._topic = topic
        self._servers = kafka["bootstrap.servers"]
        self._answer: list[KafkaError | None] = []
        self._consumer = Consumer(
            {
                **outsider_settings(kafka),
                "group.id": group,
                "isolation.level": "read_committed",  # waits for a transaction that holds the place to end
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "on_commit": lambda error, _partitions: self._answer.append(error),
            },
            logger=librdkafka_log,
        )

    def read(self) -> Place | None:
        """What is stored. Raises Unreachable, or PositionLost for what no version of ours wrote."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                (found,) = self._consumer.committed([DriverPartition(self._topic, 0)], timeout=ANSWER_SECONDS)
                break
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise failure(error.args[0], f"group {self.group}", self._servers) from error
        return _place(found.metadata, self.group) if found.offset >= 0 else None

    def move_with(self, producer: Producer, place: Place) -> None:
        """In the producer's transaction: the place and the events become visible together."""
        producer.add_offsets(self._offsets(place), self._consumer.consumer_group_metadata())

    def move(self, place: Place) -> None:
        """By itself; durable on return. Raises Unknown when no answer came.

        Not the driver's synchronous commit, which hangs in an outage.
        """
        self._answer.clear()
        self._consumer.commit(offsets=self._offsets(place), asynchronous=True)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not self._answer:
            if time.monotonic() > deadline:
                raise Unknown(f"group {self.group}: no answer to the commit of the source's position")
            self._consumer.poll(_POLL_SECONDS)
        if (error := self._answer[0]) is not None:
            raise failure(error, f"group {self.group}", self._servers)

    def close(self) -> None:
        self._consumer.close()

    def _offsets(self, place: Place) -> list[DriverPartition]:
        text = json.dumps(place)
        if len(text.encode()) > LONGEST:
            raise Usage(f"a place of {len(text)} bytes does not fit into a group's offset", "shorten what it holds")
        return [DriverPartition(self._topic, 0, 0, text)]


def _place(metadata: str | None, group: str) -> Place:
    try:
        place = json.loads(metadata or "")
    except json.JSONDecodeError as error:
        raise PositionLost(
            f"group {group} has an offset that no source of ours wrote", "give the source another --name"
        ) from error
    if not isinstance(place, dict):
        raise PositionLost(f"group {group} holds {metadata!r}, which is no place", "give the source another --name")
    return place
