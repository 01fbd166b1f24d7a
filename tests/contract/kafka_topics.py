"""Topics of a test's own, and what a reader of committed records finds in them."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from confluent_kafka import Message

from fencepost.kafka.client import Cluster, wait_until
from fencepost.kafka.topic_reader import read_in_order
from fencepost.kafka.topics import TopicRequest, create_topic, describe_topic

_MARKERS_SECONDS = 1.0  # a commit is answered before its markers are written; longer, and a transaction is open


@dataclass(frozen=True)
class KafkaTopics:
    servers: str

    @property
    def kafka(self) -> dict[str, str]:
        return {"bootstrap.servers": self.servers}

    def make(self, partitions: int = 1, name: str = "") -> str:
        name = name or f"k-{uuid4().hex}"
        create_topic(Cluster(self.kafka), TopicRequest(name, partitions))
        return name

    def committed(self, topic: str) -> list[bytes]:
        return [message.value() or b"" for message in self.messages(topic)]

    def messages(self, topic: str, isolation: str = "read_committed") -> list[Message]:
        """Everything up to the end, or to where an open transaction begins, partition by partition."""
        cluster = Cluster(self.kafka)

        def decided() -> bool:
            return all(at.last_stable_offset == at.end_offset for at in describe_topic(cluster, topic).partitions)

        wait_until(decided, _MARKERS_SECONDS)
        return read_in_order(self.kafka, topic, committed=isolation == "read_committed")
