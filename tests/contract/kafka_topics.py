"""Topics of a test's own, and what a reader of committed records finds in them."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.cluster.client import Cluster, wait_until
from fencepost.cluster.topics import TopicRequest, create_topic, describe_topic

PATIENCE = 30.0
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
        numbers = [at.partition for at in describe_topic(cluster, topic).partitions]
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
        reader.assign([DriverPartition(topic, number, 0) for number in numbers])
        found: dict[int | None, list[Message]] = {number: [] for number in numbers}
        ended: set[int | None] = set()
        while len(ended) < len(numbers):
            message = reader.poll(PATIENCE)
            assert message is not None, "no record and no end"
            if error := message.error():
                assert error.code() == KafkaError._PARTITION_EOF
                ended.add(message.partition())
            else:
                found[message.partition()].append(message)
        reader.close()
        return [message for messages in found.values() for message in messages]
