"""The records that were written last, from the ends of topics, without reading them all: committed ones only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from confluent_kafka import Message

from fencepost.kafka.client import Cluster
from fencepost.kafka.topic_reader import read_topic
from fencepost.kafka.topics import describe_topic
from fencepost.model import Span, TopicPartition

COLUMNS = ["topic", "partition", "offset", "time", "key", "value", "headers"]
GROWTH = 8  # where markers and aborted records take up the end, so many times as far back


def last_records(kafka: Mapping[str, str], topics: Iterable[str], most: int) -> list[tuple[Any, ...]]:
    """So many of all these topics, the newest last; across partitions by their time."""
    with Cluster(kafka) as cluster:
        whole = {topic: _readable(cluster, topic) for topic in topics}
    found = [one for topic, spans in whole.items() for one in _last(kafka, topic, spans, most)]
    found.sort(key=lambda one: (one.timestamp()[1], one.topic() or "", one.partition() or 0, one.offset() or 0))
    return [_shown(message) for message in found[-most:]]


def _readable(cluster: Cluster, topic: str) -> dict[TopicPartition, Span]:
    """What can be read of each partition: an open transaction ends it."""
    found = describe_topic(cluster, topic).partitions
    return {
        TopicPartition(topic, at.partition): Span(at.first_offset, max(at.first_offset, at.last_stable_offset))
        for at in found
        if at.first_offset is not None and at.last_stable_offset is not None
    }


def _last(kafka: Mapping[str, str], topic: str, whole: Mapping[TopicPartition, Span], most: int) -> list[Message]:
    far = 2 * most + 10
    while True:
        spans = {at: Span(max(span.start, span.end - far), span.end) for at, span in whole.items()}
        found = list(read_topic(kafka, topic, spans))
        if len(found) >= most or spans == whole:
            return found
        far *= GROWTH


def _shown(message: Message) -> tuple[Any, ...]:
    headers = cast(Any, message.headers()) or []
    pairs = [[name, _text(value)] for name, value in headers]
    place = (message.topic(), message.partition(), message.offset(), message.timestamp()[1])
    return (*place, _text(message.key()), _text(message.value()), pairs)


def _text(value: Any) -> str | None:
    return None if value is None else bytes(value).decode(errors="replace")
