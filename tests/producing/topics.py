"""Topics of a test's own, and what stands in them: read past any proxy, by a client that no producer of ours uses."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, Message
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from fencepost.kafka.client import Cluster, wait_until
from fencepost.kafka.topic_reader import read_in_order
from fencepost.kafka.topics import TopicRequest, create_topic, offsets_at, topic_id_and_partitions
from fencepost.model import EVENT_ID, TopicPartition


@dataclass(frozen=True)
class Topics:
    servers: str

    @property
    def kafka(self) -> dict[str, str]:
        return {"bootstrap.servers": self.servers}

    def make(self, partitions: int = 2, replicas: int = 3, config: Mapping[str, str] | None = None) -> str:
        name = f"t-{uuid.uuid4().hex}"
        create_topic(Cluster(self.kafka), TopicRequest(name, partitions, replicas, config or {}))
        return name

    def await_decided(self, topic: str) -> None:
        """Until no transaction is open: the markers of one that was committed come behind the answer."""
        cluster = Cluster(self.kafka)
        partitions = [TopicPartition(topic, number) for number in topic_id_and_partitions(cluster, topic)[1]]

        def decided() -> bool:
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            ends = (offsets_at(cluster, partitions, latest, level) for level in IsolationLevel)
            return len({frozenset(found.items()) for found in ends}) == 1

        assert wait_until(decided, 20), f"a transaction is open in {topic}"

    def read(self, topic: str, isolation: str = "read_committed", decided: bool = True) -> list[Message]:
        """Every record up to the end that stands now, partition by partition."""
        if decided and isolation == "read_committed":
            self.await_decided(topic)
        return read_in_order(self.kafka, topic, committed=isolation == "read_committed")

    def await_read(self, topic: str, records: int) -> list[Message]:
        """Until so many are there, and then what is there."""
        deadline = time.monotonic() + 20
        while len(found := self.read(topic)) < records:
            assert time.monotonic() < deadline, f"{len(found)} of {records} records"
        return found

    def values(self, topic: str, isolation: str = "read_committed", decided: bool = True) -> Counter[bytes]:
        return Counter(message.value() or b"" for message in self.read(topic, isolation, decided))


def header(message: Message, name: str = EVENT_ID) -> str:
    found = dict(message.headers() or [])[name]
    assert isinstance(found, bytes)
    return found.decode()
