"""An event as a handler sees it, and the messages that it comes in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby, islice
from operator import lt
from typing import Any, cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.model import EVENT_ID, Span, TopicPartition


@dataclass(frozen=True, slots=True)
class Event:
    """One record of a topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = field(default=(), repr=False)
    timestamp: datetime | None = None  # None also where no calendar of Python's has such a time

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def id(self) -> str | None:
        """The id that its producer gave it, if it did."""
        found = dict(self.headers).get(EVENT_ID)
        return found.decode(errors="replace") if found is not None else None

    def __str__(self) -> str:
        key = f", key {self.key.decode(errors='replace')!r}" if self.key is not None else ""
        return f"{self.place} offset {self.offset}{key}"


def event_of(message: Message) -> Event:
    kind, milliseconds = message.timestamp()
    return Event(
        cast(str, message.topic()),
        cast(int, message.partition()),
        cast(int, message.offset()),
        message.key(),
        message.value(),
        tuple(cast(Any, message.headers()) or ()),
        None if kind == TIMESTAMP_NOT_AVAILABLE else _time(milliseconds),
    )


def _time(milliseconds: int) -> datetime | None:
    """A sender may give a record any time that fits into 64 bits."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def by_partition(messages: Iterable[Message]) -> dict[TopicPartition, list[Message]]:
    """The messages of each partition, in the order in which they came."""
    groups: dict[TopicPartition, list[Message]] = {}
    for topic, of_topic in groupby(messages, Message.topic):
        for partition, run in groupby(of_topic, Message.partition):
            groups.setdefault(TopicPartition(cast(str, topic), cast(int, partition)), []).extend(run)
    return groups


def place_of(message: Message) -> TopicPartition:
    return TopicPartition(cast(str, message.topic()), cast(int, message.partition()))


def unread(messages: list[Message], start: int) -> list[Message]:
    """Those from this offset on, each once and in order: what was read before a partition came back comes again."""
    offsets: list[Any] = list(map(Message.offset, messages))
    if offsets[0] >= start and all(map(lt, offsets, islice(offsets, 1, None))):
        return messages
    return [message for offset, message in sorted(dict(zip(offsets, messages, strict=True)).items()) if offset >= start]


def spans_of(
    messages: list[Message], starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], most: int
) -> Iterator[tuple[TopicPartition, Span, list[Message]]]:
    """What is processed at once, with its span; of no more than so many messages.

    Each from where the one before ended: offsets may be missing between (markers, compaction), events not. Nothing of
    partitions without a start: they were asked back since. `ends`: where a partition's last record was, as far as is
    known; the last span includes the markers after it.
    """
    groups = by_partition(messages)
    for place in sorted({*groups, *ends} & starts.keys()):
        start, known_end = starts[place], ends.get(place, 0)
        new = unread(groups[place], start) if place in groups else []
        for part, end in _parts(new, max(start, known_end), max(most, 1)):
            if end > start:
                yield place, Span(start, end), part
            start = end


def _parts(messages: list[Message], known_end: int, most: int) -> Iterator[tuple[list[Message], int]]:
    for at in range(0, max(len(messages), 1), most):
        part = messages[at : at + most]
        end = cast(int, part[-1].offset()) + 1 if part else known_end
        yield part, max(end, known_end) if at + most >= len(messages) else end


def places_of(partitions: Iterable[DriverPartition]) -> set[TopicPartition]:
    return {TopicPartition(at.topic, at.partition) for at in partitions}


def driver_partitions(partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> list[DriverPartition]:
    if isinstance(partitions, Mapping):
        return [DriverPartition(at.topic, at.partition, position) for at, position in partitions.items()]
    return [DriverPartition(at.topic, at.partition) for at in partitions]
