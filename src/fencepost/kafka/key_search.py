"""The records of one key, or of one event's id: a bounded walk through a topic, which says up to where it came."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Message

from fencepost.kafka.messages import KEPT_BYTES, LogEntry, Reading, Wanted, bounds_of, headers_of, read_parts
from fencepost.kafka.wire import Wire
from fencepost.model import EVENT_ID, Span, TopicPartition

MOST_FOUND = 50
WALK_BYTES = 64 << 20
WALK_SECONDS = 8.0

Matches = Callable[[Message], bool]


@dataclass(frozen=True)
class Found:
    """What was found, and how far it was looked for."""

    entries: Sequence[LogEntry]
    whole: bool  # was all of it looked at?
    reached: Mapping[TopicPartition, int]  # where to go on
    end: Mapping[TopicPartition, int]


def with_key(key: bytes) -> Matches:
    return lambda message: _bytes(message.key()) == key


def with_id(id_: str) -> Matches:
    """The id that Fencepost's producers give an event."""
    wanted = id_.encode()
    return lambda message: (EVENT_ID, wanted) in headers_of(message)


def _bytes(key: str | bytes | None) -> bytes | None:
    return key.encode() if isinstance(key, str) else key


def search(
    wire: Wire,
    kafka: Mapping[str, str],
    starts: Mapping[TopicPartition, int],
    matches: Matches,
    kept: int = KEPT_BYTES,
) -> Found:
    """From these offsets on, committed or not; the first fifty."""
    bounds = bounds_of(wire, starts)
    spans = {
        at: Span(min(max(start, bounds[at].first), bounds[at].end), bounds[at].end) for at, start in starts.items()
    }
    reading = Reading(kafka, spans, WALK_BYTES, WALK_SECONDS)
    places: list[tuple[TopicPartition, int]] = []
    stopped = False
    for message in reading.messages():
        if matches(message):
            places.append((TopicPartition(message.topic() or "", message.partition() or 0), message.offset() or 0))
            if stopped := len(places) >= MOST_FOUND:
                break
    entries = [entry for at, offset in places for entry in read_place(wire, kafka, at, offset, kept)]
    whole = not (stopped or reading.stopped)
    return Found(entries, whole, reading.reached, {at: span.end for at, span in spans.items()})


def read_place(
    wire: Wire, kafka: Mapping[str, str], at: TopicPartition, offset: int, kept: int = KEPT_BYTES
) -> list[LogEntry]:
    """What stands at one offset; nothing where it was compacted or deleted."""
    (part,) = read_parts(wire, kafka, {at: Wanted(1, offset)}, kept)
    return [entry for entry in part.entries if entry.offset == offset]
