"""Whose answer is it? One callback for all events of a call, in place of one for each.

A failure says what the record carried, but not its headers, so events with the same key and value in one call are told
apart only by all of them failing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, Message

from fencepost.model import Outcome
from fencepost.producing.delivery_reports import DeliveryReport
from fencepost.producing.events import Event

_Content = tuple[str | None, bytes | None, bytes | None]  # topic, key, value


class Failures:
    """Given to the driver as the callback of each of these events, which it calls for those that failed."""

    def __init__(
        self,
        topic: str,
        events: Sequence[Event],
        numbers: Sequence[int],
        fail: Callable[[int, DeliveryReport], None],
        report_of: Callable[[KafkaError], DeliveryReport],
    ) -> None:
        self._topic = topic
        self._events = events
        self._numbers = numbers
        self._fail = fail
        self._report_of = report_of
        self._alike: dict[_Content, list[int]] = {}
        self._failed: Counter[_Content] = Counter()

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        content = (message.topic(), message.key(), message.value())
        alike = self._same(content)
        self._failed[content] += 1
        report = self._report_of(error)
        if self._failed[content] < len(alike):
            report = DeliveryReport(
                Outcome.UNKNOWN, f"one of {len(alike)} events with the same key and value failed: {report.why}"
            )
        for number in alike:
            self._fail(number, report)

    def _same(self, content: _Content) -> list[int]:
        if not self._alike:  # the first failure
            found: defaultdict[_Content, list[int]] = defaultdict(list)
            for number, event in zip(self._numbers, self._events, strict=True):
                found[event.topic or self._topic, event.key, event.value].append(number)
            self._alike = found
        return self._alike.get(content) or list(self._numbers)  # whoever it was, it was one of these
