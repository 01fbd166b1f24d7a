"""What stands in a topic and in a table, read by clients that no writer of ours uses."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.cluster.settings import librdkafka_settings
from fencepost.errors import Unreachable, Usage
from fencepost.model import TopicPartition

_log = logging.getLogger("fencepost.librdkafka")
SILENCE = 30.0  # seconds without a record or an end before a reader gives up


def read_committed(
    kafka: Mapping[str, str], topic: str, until: Mapping[TopicPartition, int] | None = None
) -> Iterator[Message]:
    """Every committed record of the topic, up to these positions or to where its partitions end now.

    Raises Unreachable when nothing comes any more before the end: what was read so far is not the whole.
    """
    consumer = _consumer(kafka)
    try:
        waiting = set(_partitions(consumer, topic))
        if until is not None:
            waiting &= {at for at in waiting if until.get(at, 0) > 0}
        consumer.assign([DriverPartition(topic, at.partition, OFFSET_BEGINNING) for at in waiting])
        while waiting:
            message = _next(consumer, topic)
            at = TopicPartition(topic, cast(int, message.partition()))
            if message.error() is not None:
                waiting.discard(at)  # the end of the partition
            elif until is None or cast(int, message.offset()) < until[at]:
                yield message
            else:
                waiting.discard(at)
                consumer.incremental_unassign([DriverPartition(topic, at.partition)])
    finally:
        consumer.close()


def _consumer(kafka: Mapping[str, str]) -> Consumer:
    settings: dict[str, Any] = {
        **librdkafka_settings(kafka),
        "group.id": f"fencepost-reader-{uuid4()}",  # never joined, never committed to
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 50,
    }
    return Consumer(settings, logger=_log)


def _partitions(consumer: Consumer, topic: str) -> Sequence[TopicPartition]:
    try:
        found = consumer.list_topics(topic, timeout=15).topics[topic]
    except KafkaException as error:
        raise Unreachable(f"Kafka does not answer: {error.args[0].str()}") from error
    if found.error is not None:
        raise Usage(f"topic {topic!r} cannot be read: {found.error.str()}", "see `fencepost topic list`")
    return [TopicPartition(topic, number) for number in found.partitions]


def _next(consumer: Consumer, topic: str) -> Message:
    message = consumer.poll(SILENCE)
    if message is None:
        raise Unreachable(f"topic {topic!r}: no record and no end came for {SILENCE:.0f} s", "see the brokers")
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise Unreachable(f"topic {topic!r} cannot be read: {error.str()}")
    return message
