"""What stands in a topic, read by a client that Spark's writers do not use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, KafkaException, Message
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.errors import Unreachable, Usage
from fencepost.kafka.errors import is_end_of_partition
from fencepost.kafka.standalone_consumer import StandaloneConsumer
from fencepost.model import Span, TopicPartition

SILENCE = 30.0  # seconds without a record or an end before a reader gives up
AT_ONCE = 5_000


def read_committed(kafka: Mapping[str, str], topic: str) -> Iterator[Message]:
    """Every committed record of the topic, up to where its partitions end now."""
    return read_topic(kafka, topic, None)


def read_in_order(kafka: Mapping[str, str], topic: str, *, committed: bool = True) -> list[Message]:
    """The whole of a topic that is not large, partition by partition."""
    found = read_topic(kafka, topic, None, committed=committed)
    return sorted(found, key=lambda one: (cast(int, one.partition()), cast(int, one.offset())))


def read_topic(
    kafka: Mapping[str, str], topic: str, ranges: Mapping[TopicPartition, Span] | None, *, committed: bool = True
) -> Iterator[Message]:
    """The records of these ranges, or all of them; without `committed` those of open and aborted transactions too.

    Raises Unreachable when nothing comes any more before the end: what was read so far is not the whole.
    """
    consumer = _consumer(kafka, committed)
    try:
        until = _ends(consumer, topic, ranges)
        starts = {at: ranges[at].start if ranges else OFFSET_BEGINNING for at in until}
        consumer.driver.assign([DriverPartition(topic, at.partition, start) for at, start in starts.items()])
        waiting = set(until)
        while waiting:
            for message in _next(consumer, topic):
                at = TopicPartition(topic, cast(int, message.partition()))
                if at not in waiting:
                    continue  # read ahead of the end that was asked for
                end, offset = until[at], cast(int, message.offset())
                if message.error() is None and (end is None or offset < end):
                    yield message
                else:
                    _require_reached(at, offset, end)
                    waiting.discard(at)
                    consumer.driver.incremental_unassign([DriverPartition(topic, at.partition)])
    finally:
        consumer.close()


def _ends(
    consumer: StandaloneConsumer, topic: str, ranges: Mapping[TopicPartition, Span] | None
) -> dict[TopicPartition, int | None]:
    there = _partitions(consumer, topic)
    if ranges is None:
        return dict.fromkeys(there)
    return {at: span.end for at, span in ranges.items() if at in there and span.end > span.start}


def _require_reached(at: TopicPartition, offset: int, end: int | None) -> None:
    if end is not None and offset < end:
        raise Unreachable(
            f"{at} can be read up to {offset} only; the comparison needs it up to {end}",
            "a transaction is still open there, or records were deleted: see `fencepost topic describe`",
        )


def _consumer(kafka: Mapping[str, str], committed: bool) -> StandaloneConsumer:
    isolation = "read_committed" if committed else "read_uncommitted"
    own = {"enable.partition.eof": True, "auto.offset.reset": "error", "fetch.wait.max.ms": 50}
    return StandaloneConsumer(kafka, f"fencepost-reader-{uuid4()}", isolation, own)  # a group that nobody commits to


def _partitions(consumer: StandaloneConsumer, topic: str) -> set[TopicPartition]:
    try:
        found = consumer.driver.list_topics(topic, timeout=15).topics[topic]
    except KafkaException as error:
        raise Unreachable(f"Kafka does not answer: {error.args[0].str()}") from error
    if found.error is not None:
        raise Usage(f"topic {topic!r} cannot be read: {found.error.str()}", "see `fencepost topic list`")
    return {TopicPartition(topic, number) for number in found.partitions}


def _next(consumer: StandaloneConsumer, topic: str) -> list[Message]:
    """The next records and ends of partitions; waits for the first, and takes along what is there already."""
    first = consumer.poll(SILENCE)
    if first is None:
        raise Unreachable(f"topic {topic!r}: no record and no end came for {SILENCE:.0f} s", "check the brokers")
    messages = [first, *consumer.consume(AT_ONCE, 0)]
    for message in messages:
        error = message.error()
        if error is not None and not is_end_of_partition(error):
            raise Unreachable(f"topic {topic!r} cannot be read: {error.str()}")
    return messages
