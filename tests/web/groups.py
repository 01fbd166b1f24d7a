"""What groups of others do to their offsets."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition


def committed(servers: str, group: str, topic: str, offset: int) -> None:
    """As tools do that move a group's offsets."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()
