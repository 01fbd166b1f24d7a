"""An event as a handler sees it, and the messages that it comes in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from fencepost.model import EVENT_ID, TopicPartition


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
    offsets: list[Any] = [message.offset() for message in messages]
    if offsets[0] >= start and offsets == sorted(set(offsets)):
        return messages
    return [message for offset, message in sorted(dict(zip(offsets, messages, strict=True)).items()) if offset >= start]
