"""Records as they stand in the log, with what a reader of committed ones makes of each: a bounded part of a topic.

The batches' headers say what was committed, aborted, is open or a marker (`log_reader.py`), librdkafka unpacks the
records. However large the topic and its records are: so many offsets, bytes and seconds, and then it stops and says so.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast
from uuid import uuid4

from confluent_kafka import Message
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.errors import Unreachable
from fencepost.kafka.batch_headers import BatchHeader, Marker, moment
from fencepost.kafka.errors import Missing, is_end_of_partition
from fencepost.kafka.layout import leaders, list_offsets
from fencepost.kafka.log_reader import Fetched, fetch
from fencepost.kafka.open_transactions import open_producers
from fencepost.kafka.standalone_consumer import StandaloneConsumer
from fencepost.kafka.visibility import Stretch, Visibility, classify
from fencepost.kafka.wire import Wire
from fencepost.model import Span, TopicPartition

MOST_BYTES = 16 << 20  # that are unpacked for one answer
MOST_SECONDS = 10.0
KEPT_BYTES = 2 << 10  # of each value, key and header, in a list
_FETCHES = 8  # of headers, for one part
_AT_ONCE = 20  # messages
_WAIT_SECONDS = 0.2
_BOUNDED = {
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 10,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 4_096,
    "fetch.message.max.bytes": 1 << 20,
}
_SMALLER = 4  # looks for the newest, each at a quarter of the offsets
_LARGE = "the records are too large for one look"


@dataclass(frozen=True)
class Content:
    """Bytes of a record, or the beginning of them."""

    data: bytes
    size: int  # of all of them

    @property
    def cut(self) -> bool:
        return self.size > len(self.data)


@dataclass(frozen=True)
class LogEntry:
    """One offset: a record, or the marker that ends a transaction."""

    partition: TopicPartition
    offset: int
    visibility: Visibility
    held: bool  # committed, but readers of committed records wait before an open transaction
    batch: BatchHeader
    timestamp: datetime | None = None
    key: Content | None = None
    value: Content | None = None
    headers: tuple[tuple[str, Content | None], ...] = ()

    @property
    def marker(self) -> Marker | None:
        return self.batch.marker

    @property
    def read_committed(self) -> bool:
        """Would a reader of committed records get it now?"""
        return self.visibility is Visibility.COMMITTED and not self.held


@dataclass(frozen=True)
class LogPart:
    """Some offsets of one partition."""

    partition: TopicPartition
    entries: Sequence[LogEntry]
    span: Span  # what was read; compaction leaves holes
    first: int  # offset of the log
    stable: int
    end: int
    stopped: str = ""  # why it is less than was asked for


@dataclass(frozen=True)
class Wanted:
    """So many offsets of a partition, from the first that is meant; or, without one, its newest."""

    most: int
    start: int | None = None


def read_parts(
    wire: Wire, kafka: Mapping[str, str], wanted: Mapping[TopicPartition, Wanted], kept: int = KEPT_BYTES
) -> list[LogPart]:
    """Each of them, in its partition's bounds, with `kept` bytes of each value. Raises Missing, Unreachable."""
    parts = _read(wire, kafka, wanted, kept)
    for _ in range(_SMALLER):
        asked = {at: one for at, one in wanted.items() if one.start is None and one.most > 1}
        short = {one.partition for one in parts if one.partition in asked and one.stopped and one.span.end < one.end}
        if not short:
            break  # the newest that were asked for are there
        wanted = {at: Wanted(max(one.most // 4, 1)) if at in short else one for at, one in wanted.items()}
        parts = _read(wire, kafka, wanted, kept)
        parts = [replace(one, stopped=one.stopped or _LARGE) if one.partition in short else one for one in parts]
    return parts


def _read(wire: Wire, kafka: Mapping[str, str], wanted: Mapping[TopicPartition, Wanted], kept: int) -> list[LogPart]:
    bounds = bounds_of(wire, wanted)
    asked = {at: _span(one, bounds[at]) for at, one in wanted.items()}
    found = _headers(wire, bounds, asked)
    spans = {at: Span(span.start, min(span.end, max(found[at].upto, span.start))) for at, span in asked.items()}
    entries, reading = _unpacked(kafka, _classified(wire, found), spans, kept)
    if reading.stopped:
        spans = {at: Span(span.start, reading.reached.get(at, span.end)) for at, span in spans.items()}
    return [
        LogPart(
            at,
            [entry for entry in entries[at] if entry.offset < spans[at].end],
            spans[at],
            one.first,
            one.stable,
            one.end,
            reading.stopped or (_LARGE if spans[at].end < asked[at].end else ""),
        )
        for at, one in sorted(found.items())
    ]


def read_part(
    wire: Wire, kafka: Mapping[str, str], at: TopicPartition, start: int, most: int, kept: int = KEPT_BYTES
) -> LogPart:
    """Of one partition."""
    return read_parts(wire, kafka, {at: Wanted(most, start)}, kept)[0]


def _span(one: Wanted, bounds: Fetched) -> Span:
    start = bounds.end - one.most if one.start is None else one.start
    begin = min(max(start, bounds.first), bounds.end)
    return Span(begin, min(begin + one.most, bounds.end))


def bounds_of(wire: Wire, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Fetched]:
    """Where each begins and ends, without a batch. Raises Missing."""
    wanted = set(partitions)
    led = {at: leader for at, leader in leaders(wire, wanted).items() if at in wanted}
    first, stable = list_offsets(wire, led, first=True), list_offsets(wire, led, stable=True)
    end = list_offsets(wire, led)
    for at in sorted(wanted):
        if not (at in first and at in stable and at in end):
            raise Missing(f"{at} does not exist, or nobody leads it", "see `fencepost topic describe`")
    return {at: Fetched((), (), first[at], stable[at], end[at]) for at in wanted}


def _headers(
    wire: Wire, bounds: Mapping[TopicPartition, Fetched], spans: Mapping[TopicPartition, Span]
) -> dict[TopicPartition, Fetched]:
    """Of these offsets: up to the last stable one as readers of committed records get them, and what is behind it."""
    found = dict(bounds)
    upto = {at: span.start for at, span in spans.items() if span.start < span.end}
    for _ in range(_FETCHES):
        before = dict(upto)
        for committed in (True, False):
            starts = {at: offset for at, offset in upto.items() if (offset < bounds[at].stable) is committed}
            for at, more in (fetch(wire, starts, committed=committed) if starts else {}).items():
                found[at] = _joined(found[at], more)
                upto[at] = max(found[at].upto, upto[at])
        upto = {at: offset for at, offset in upto.items() if offset < spans[at].end and offset > before[at]}
        if not upto:
            break
    return found


def _joined(one: Fetched, more: Fetched) -> Fetched:
    return replace(one, batches=(*one.batches, *more.batches), aborted=(*one.aborted, *more.aborted))


def _classified(wire: Wire, found: Mapping[TopicPartition, Fetched]) -> dict[TopicPartition, list[Stretch]]:
    beyond = [
        at for at, one in found.items() if any(each.transactional and each.last >= one.stable for each in one.batches)
    ]
    open_: dict[TopicPartition, dict[int, int]] = {at: {} for at in found}
    for producer in open_producers(wire, beyond) if beyond else ():
        open_[producer.partition][producer.producer_id] = producer.start_offset
    return {at: _of_one(wire, at, one, open_[at]) for at, one in found.items()}


def _of_one(wire: Wire, at: TopicPartition, found: Fetched, open_: Mapping[int, int]) -> list[Stretch]:
    """Where a marker lies behind what was read, one look ahead."""
    stretches = classify(found.batches, set(found.aborted), found.stable, open_)
    if found.upto >= found.end or not any(one.visibility is Visibility.UNKNOWN for one in stretches):
        return stretches
    ahead = fetch(wire, {at: found.upto}, committed=False).get(at)
    return classify(found.batches, set(found.aborted), found.stable, open_, ahead.batches if ahead else ())


def _unpacked(
    kafka: Mapping[str, str],
    classified: Mapping[TopicPartition, Sequence[Stretch]],
    spans: Mapping[TopicPartition, Span],
    kept: int,
) -> tuple[dict[TopicPartition, list[LogEntry]], Reading]:
    """Records with their bytes, and markers, which no client hands over."""
    entries = {at: list(_markers(at, stretches, spans[at])) for at, stretches in classified.items()}
    wanted = {at: span for at, span in spans.items() if len(entries[at]) < span.end - span.start}
    reading = Reading(kafka, wanted)
    for message in reading.messages():
        at = TopicPartition(cast(str, message.topic()), cast(int, message.partition()))
        if entry := _entry(at, message, classified[at], kept):
            entries[at].append(entry)
    return {at: sorted(found, key=lambda one: one.offset) for at, found in entries.items()}, reading


def _markers(at: TopicPartition, stretches: Sequence[Stretch], span: Span) -> Iterator[LogEntry]:
    for one in stretches:
        if one.batch.marker is not None:
            for offset in range(max(one.batch.first, span.start), min(one.batch.last + 1, span.end)):
                yield LogEntry(at, offset, one.visibility, one.held, one.batch, moment(one.batch.last_ms))


def _entry(at: TopicPartition, message: Message, stretches: Sequence[Stretch], kept: int) -> LogEntry | None:
    offset = cast(int, message.offset())
    over = next((one for one in stretches if offset in one), None)
    if over is None:
        return None
    kind, ms = message.timestamp()
    return LogEntry(
        at,
        offset,
        over.visibility,
        over.held,
        over.batch,
        moment(ms) if kind else None,
        _content(message.key(), kept),
        _content(message.value(), kept),
        tuple((name, _content(value, kept)) for name, value in headers_of(message)[:100]),
    )


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """As they are. Raises nothing for a name that is no UTF-8."""
    try:
        found = message.headers() or []
    except UnicodeDecodeError:
        return [("a header's name is not UTF-8", None)]
    pairs = found.items() if isinstance(found, dict) else found
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]


def _content(data: Any, kept: int) -> Content | None:
    if data is None:
        return None
    whole = data.encode() if isinstance(data, str) else bytes(data)
    return Content(whole[:kept], len(whole))


class Reading:
    """The records of these spans, whoever may see them, within bounds. Closed at its end."""

    def __init__(
        self,
        kafka: Mapping[str, str],
        spans: Mapping[TopicPartition, Span],
        most_bytes: int = MOST_BYTES,
        seconds: float = MOST_SECONDS,
    ) -> None:
        self._kafka = kafka
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._left = {at: span for at, span in spans.items() if span.start < span.end}
        self.stopped = ""  # why not all of them came
        self.reached = {at: span.start for at, span in spans.items()}

    def messages(self) -> Iterator[Message]:
        if not self._left:
            return
        deadline, taken = time.monotonic() + self._seconds, 0
        group = f"fencepost-page-{uuid4()}"  # nobody commits to it
        with closing(StandaloneConsumer(self._kafka, group, "read_uncommitted", _BOUNDED)) as consumer:
            consumer.driver.assign([DriverPartition(*at, span.start) for at, span in self._left.items()])
            while self._left:
                if time.monotonic() > deadline:
                    self.stopped = f"reading took more than {self._seconds:.0f} s"
                    return
                for message in _next(consumer):
                    if self._wanted(message):
                        yield message
                        taken += len(message)
                    if taken > self._most_bytes:
                        self.stopped = f"the records have more than {self._most_bytes >> 20} MiB"
                        return

    def _wanted(self, message: Message) -> bool:
        at = TopicPartition(cast(str, message.topic()), cast(int, message.partition()))
        error, span = message.error(), self._left.get(at)
        if span is None:
            return False
        if error is not None and not is_end_of_partition(error):
            raise Unreachable(f"{at} cannot be read: {error.str()}", "see `fencepost topic describe`")
        offset = cast(int, message.offset())
        self.reached[at] = span.end if error is not None else min(offset + 1, span.end)
        if self.reached[at] >= span.end:
            del self._left[at]
        return error is None and offset < span.end


def _next(consumer: StandaloneConsumer) -> list[Message]:
    """What is there; waits a little for the first."""
    first = consumer.poll(_WAIT_SECONDS)
    return [] if first is None else [first, *consumer.consume(_AT_ONCE, 0)]
