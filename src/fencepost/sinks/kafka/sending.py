"""Records into an open transaction: all of them are in the log when it returns, or none will ever be read."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from itertools import repeat, starmap
from operator import length_hint
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from fencepost.errors import FencepostError, Poison, Refused, Unreachable
from fencepost.kafka.errors import is_bad_record, is_not_valid, is_unknown_partition, outcome_of
from fencepost.kafka.producer import Client
from fencepost.model import Outcome, Span, TopicPartition
from fencepost.sinks.kafka.outputs import ORIGIN, Headers, Records
from fencepost.sinks.kafka.settings import TIMEOUT, KafkaSettings

# The driver gives the interpreter up for every record: threads that send at the same time hinder each other badly.
# Waiting for answers and for commits is another matter, and takes most of a transaction's time.
_FILLING = threading.Lock()
_SERVE_EVERY = 1000  # records between two looks for answers
_FULL_SECONDS = 0.05
_SHARE = 0.8  # of the transaction's time for its records: the rest is for their answers and the commit
_ORIGIN = re.compile(r"(?P<place>[^/]+/\d+)/(?P<offset>\d{1,19})/\d+")


class Sending:
    """One transaction's records, through the client that holds it."""

    def __init__(self, client: Client, settings: KafkaSettings, span: tuple[TopicPartition, Span]) -> None:
        """Right after the transaction was begun; `span` is what the records were made of."""
        self._client = client
        self._settings = settings
        self._span = span
        self._until = monotonic() + _SHARE * settings.transaction_ms / 1000
        self._failures: list[tuple[KafkaError, str | None]] = []  # with the topic
        self._bad: list[tuple[int, str]] = []  # source records of which an output is too large

    def send(self, records: Iterable[Records], topics: Sequence[str]) -> int:
        """How many there were. Waits while the queue is full, and in the end for every answer.

        Those that name no topic go to the first. Raises Refused for a record that the brokers will never take, Poison
        where it is known of what it was made, Fenced, Unreachable.
        """
        with _FILLING:
            count = self._fill(records, topics)
        if self._bad:
            raise Poison(str(self._span[0]), self._bad)
        self._client.drain(lambda: bool(self._failures))
        self._stop_at_failure()
        return count

    def _fill(self, records: Iterable[Records], topics: Sequence[str]) -> int:
        count = 0
        for many in records:
            for start in range(0, len(many.values), _SERVE_EVERY):
                few = many.part(start, start + _SERVE_EVERY)
                self._put(few, _named(few.topics, topics))
                count += len(few.values)
                self._client.poll()
                self._stop_at_failure()
                self._stop_in_time(count)
        return count

    def _put(self, records: Records, topics: list[str]) -> None:
        """Without a step of Python's for a record, unless there is trouble with it."""
        values, keys, _, headers, _, times = records
        partitions = _numbers(records.partitions)
        done = 0
        while done < len(values):
            left = iter(values[done:])
            fields = (topics[done:], left, keys[done:], partitions[done:])
            # in the order of the driver's own parameters: names cost as much as the rest of the call
            calls = zip(*fields, repeat(self._failed), repeat(None), times[done:], headers[done:], strict=False)
            try:
                deque(starmap(self._client.produce, calls), maxlen=0)
                return
            except (BufferError, KafkaException, OverflowError, Refused):
                at = len(values) - length_hint(left) - 1
                self._insist(topics[at], records, at)
                done = at + 1

    def _stop_in_time(self, count: int) -> None:
        """What the brokers would abort is given up before: then it is known what became of it."""
        if monotonic() > self._until:
            seconds = self._settings.transaction_ms / 1000
            raise Unreachable(
                f"{self._span[0]} {self._span[1]}: after {_SHARE:.0%} of {TIMEOUT} ({seconds:g} s) only {count:,} "
                "records were sent: nothing of the batch is written, and it is done again",
                f"set batch: {{records: {max(count // 2, 1)}}} if that goes on",
            )

    def _insist(self, topic: str, records: Records, at: int) -> None:
        """One record. Where it can never be sent, it is a bad one, if it is known of what it was made."""
        values, keys, _, headers, _, times = records
        (partition,) = _numbers([records.partitions[at]])
        asked = False
        while True:
            try:
                self._client.produce(
                    topic, values[at], keys[at], partition, self._failed, timestamp=times[at], headers=headers[at]
                )
                return
            except BufferError:
                self._client.poll(_FULL_SECONDS)
                self._stop_at_failure()
            except (KafkaException, OverflowError, Refused) as error:
                if asked or not (isinstance(error, KafkaException) and is_unknown_partition(error.args[0])):
                    self._give_up(topic, partition, records, at, error)
                    return
                asked = True  # partitions may have been added since the client asked
                self._client.connect(topic)

    def _give_up(
        self, topic: str, partition: int, records: Records, at: int, error: KafkaException | OverflowError | Refused
    ) -> None:
        """Note a record that is bad in itself; raises what else it is."""
        headers, trouble = _origin_at(records.headers, at), self._trouble(error, partition)
        if not isinstance(trouble, Refused):
            raise trouble from error
        alone = not isinstance(error, KafkaException) or is_bad_record(error.args[0])
        if alone and topic != self._settings.letters and (offset := self._offset_of(headers)) is not None:
            self._note_bad(offset, f"topic {topic}: {trouble.message}")
            return
        raise Refused(f"topic {topic}{_of(headers)}: {trouble.message}", trouble.remedy) from error

    def _trouble(self, error: KafkaException | OverflowError | Refused, partition: int) -> FencepostError:
        if isinstance(error, Refused):
            return error
        if isinstance(error, OverflowError) or is_unknown_partition(error.args[0]):
            return Refused(f"it has no partition {partition}", "fix the transform, or add partitions to the topic")
        return self._client.trouble(error)

    def _note_bad(self, offset: int, why: str) -> None:
        """One that is too large. The others are sent, in vain, so that all of them are known."""
        if self._bad and self._bad[-1][0] == offset:
            return  # another output of the same record
        self._bad.append((offset, why))
        if len(self._bad) >= self._settings.most_bad:
            raise Poison(str(self._span[0]), self._bad)

    def _offset_of(self, headers: list[Any] | None) -> int | None:
        """Of the source record, where the output says of which it was made."""
        place, span = self._span
        name, origin = headers[0] if headers else ("", b"")
        found = _ORIGIN.fullmatch(origin.decode(errors="replace")) if name == ORIGIN and origin else None
        if found is None or found["place"] != str(place):
            return None
        offset = int(found["offset"])
        return offset if span.start <= offset < span.end else None

    def _failed(self, error: KafkaError | None, message: Message) -> None:
        """Called only for failures (delivery.report.only.error)."""
        if error is not None:
            self._failures.append((error, message.topic()))

    def _stop_at_failure(self) -> None:
        """A transaction that lacks a record must not be committed."""
        if not self._failures:
            return
        refused = [one for one in self._failures if outcome_of(one[0], retried=True) is Outcome.REFUSED]
        error, topic = (refused or self._failures)[0]
        said = f"a record of the transaction into topic {topic} failed: {error.str()}"
        if refused and is_not_valid(error):
            raise Refused(
                f"{said}: its time is further from now than the topic takes, or it has no key and the topic is "
                "compacted; nothing of its batch was written",
                "leave the column `timestamp` out in the transform, so that the time of writing counts, or raise the "
                "topic's message.timestamp.after.max.ms; give records of a compacted topic a key",
            )
        if refused:
            raise Refused(said, "fix the record or the topic; nothing of its batch was written")
        raise Unreachable(said)


def _named(topics: Sequence[str | None], allowed: Sequence[str]) -> list[str]:
    """Those that are written to; the first of the allowed ones where none is named. Raises Refused for others."""
    named = {topic for topic in set(topics) if topic is not None}
    if not named:
        return [allowed[0]] * len(topics)
    if strangers := named.difference(allowed):
        raise _stranger(min(strangers), allowed)
    return [topic or allowed[0] for topic in topics]


def _numbers(partitions: Sequence[int | None]) -> list[int]:
    """As the driver takes them, to which -1 means that it chooses."""
    return [-1 if number is None else number for number in partitions]


def _stranger(topic: str, allowed: Collection[str]) -> Refused:
    return Refused(
        f"an output goes to topic {topic!r}, which is not declared ({', '.join(sorted(allowed))})",
        "add it to the sink's topics, or fix the transform",
    )


def _origin_at(headers: Sequence[list[Any] | None], at: int) -> list[Any] | None:
    """What says of which record it was made, and with it others where they are known to be headers."""
    return headers.origin(at) if isinstance(headers, Headers) else headers[at]


def _of(headers: list[Any] | None) -> str:
    """Of which source record it is, where it says so."""
    name, origin = headers[0] if headers else ("", b"")
    return f", the output of {origin.decode(errors='replace')}" if name == ORIGIN and origin else ""
