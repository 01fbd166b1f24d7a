"""Topics of a test's own, and what stands in them: read past any proxy, by a client that no producer of ours uses."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.cluster.client import Cluster
from fencepost.cluster.topics import TopicRequest, create_topic, topic_id_and_partitions
from fencepost.model import EVENT_ID


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

    def read(self, topic: str, isolation: str = "read_committed") -> list[Message]:
        """Every record up to the end that stands now, partition by partition."""
        _, partitions = topic_id_and_partitions(Cluster(self.kafka), topic)
        reader = Consumer(
            {
                **self.kafka,
                "group.id": "nobody",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
            }
        )
        reader.assign([DriverPartition(topic, partition, 0) for partition in partitions])
        found: list[Message] = []
        ended: set[int | None] = set()
        while len(ended) < len(partitions):
            message = reader.poll(20)
            assert message is not None, "no record and no end"
            if error := message.error():
                assert error.code() == KafkaError._PARTITION_EOF
                ended.add(message.partition())
            else:
                found.append(message)
        reader.close()
        return sorted(found, key=lambda one: (cast(int, one.partition()), cast(int, one.offset())))

    def await_read(self, topic: str, records: int) -> list[Message]:
        """Until so many are there, and then what is there."""
        deadline = time.monotonic() + 20
        while len(found := self.read(topic)) < records:
            assert time.monotonic() < deadline, f"{len(found)} of {records} records"
        return found

    def values(self, topic: str, isolation: str = "read_committed") -> Counter[bytes]:
        return Counter(message.value() or b"" for message in self.read(topic, isolation))


def header(message: Message, name: str = EVENT_ID) -> str:
    found = dict(message.headers() or [])[name]
    assert isinstance(found, bytes)
    return found.decode()
