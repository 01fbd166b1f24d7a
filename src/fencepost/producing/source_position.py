"""Where a source stands: a group's offset on the target topic, with the place and its owner in the metadata.

The offset itself stays 0, so that lag tools show no nonsense. The group never has members.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import TopicPartition as DriverPartition

from fencepost.errors import PositionLost, Usage
from fencepost.kafka.standalone_consumer import StandaloneConsumer
from fencepost.model import TopicPartition
from fencepost.producing.source_producer import SourceProducer
from fencepost.producing.sources.source import Place

LONGEST = 4095  # bytes of metadata that a broker takes by default
TIMEOUT_SECONDS = 60.0
_OWNER = "owner"


@dataclass(frozen=True)
class StoredPlace:
    """What the group holds."""

    place: Place
    owner: str = ""  # the token of the run that stored it; none under the two weaker words, and by earlier versions


class SourcePosition:
    """One source's place. Read and written by one producer at a time; under exactly-once the brokers see to that."""

    def __init__(self, kafka: Mapping[str, str], topic: str, group: str) -> None:
        self.group = group
        self._at = TopicPartition(topic, 0)
        self._consumer = StandaloneConsumer(kafka, group)

    def read(self) -> StoredPlace | None:
        """What is stored. Raises Unreachable, or PositionLost for what no version of ours wrote."""
        found = self._consumer.stored([self._at], TIMEOUT_SECONDS).get(self._at)
        return None if found is None else _stored(found.metadata, self.group)

    def store_with(self, producer: SourceProducer, place: Place, owner: str) -> None:
        """In the producer's transaction: the place and the events become visible together."""
        offsets = self._offsets({**place, _OWNER: owner})
        producer.add_offsets(offsets, self._consumer.driver.consumer_group_metadata())

    def store(self, place: Place) -> None:
        """By itself; durable on return. Raises Unknown when no answer came."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        self._consumer.store(self._offsets(place), lambda: time.monotonic() > deadline)

    def close(self) -> None:
        self._consumer.close()

    def _offsets(self, place: Place) -> list[DriverPartition]:
        text = json.dumps(place)
        if len(text.encode()) > LONGEST:
            raise Usage(f"a position of {len(text)} bytes does not fit into a group's offset metadata", "shorten it")
        return [DriverPartition(*self._at, 0, text)]


def _stored(metadata: str | None, group: str) -> StoredPlace:
    try:
        place = json.loads(metadata or "")
    except json.JSONDecodeError as error:
        raise PositionLost(
            f"group {group} has an offset that Fencepost did not write", "give the source another --name"
        ) from error
    if not isinstance(place, dict):
        raise PositionLost(
            f"group {group} holds {metadata!r}, which is not a position", "give the source another --name"
        )
    owner = place.pop(_OWNER, "")
    return StoredPlace(place, str(owner))
