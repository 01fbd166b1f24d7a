"""What leaves a producer: each event numbered, named, noted in the journal first, and settled by its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import MethodType
from typing import Any
from zlib import crc32

from confluent_kafka import KafkaError, KafkaException, Message

from fencepost.errors import Refused
from fencepost.kafka.config.producer import Declaration
from fencepost.kafka.errors import outcome_of
from fencepost.kafka.producer import Client
from fencepost.model import EVENT_CHECKSUM, EVENT_ID, Outcome
from fencepost.producing.callbacks import Failures
from fencepost.producing.delivery_reports import DeliveryReport, DeliveryReports, Settled, runs
from fencepost.producing.events import Event, headers_of, new_producer_id, require_id
from fencepost.producing.journal import Journal, NoJournal
from fencepost.rules.producer import Acks

_SERVE_EVERY = 1000  # events between two looks for answers on the fast path
_ID = attrgetter("id")
_SETTLE_EVERY = 100  # sends between two looks at which of them are settled
_FULL_SECONDS = 0.05
ACKED = DeliveryReport(Outcome.ACKED)
NOBODY_ANSWERS = DeliveryReport(Outcome.UNKNOWN, "no acknowledgement was requested")
NEVER_LEFT = DeliveryReport(Outcome.REFUSED, "it was never sent")
INTERRUPTED = DeliveryReport(Outcome.UNKNOWN, "the send was interrupted")


class Handle:
    """One event that was sent. Its outcome is unknown until an answer came, or its transaction ended."""

    __slots__ = ("_reports", "id", "number", "offset", "partition", "topic")

    def __init__(self, reports: DeliveryReports, number: int, id_: str, topic: str) -> None:
        self._reports = reports
        self.number = number
        self.id = id_
        self.topic = topic
        self.partition: int | None = None  # known when the answer came
        self.offset: int | None = None

    @property
    def outcome(self) -> Outcome:
        return self._reports.report(self.number).outcome

    @property
    def why(self) -> str:
        """Why it was refused or aborted, or is unknown."""
        return self._reports.report(self.number).why

    def __repr__(self) -> str:
        where = "" if self.offset is None else f" at {self.topic}/{self.partition} offset {self.offset}"
        return f"<{self.id}: {self.outcome}{where}{f', {self.why}' if self.why else ''}>"


class Sender:
    """The events of one producer session, over all of its clients."""

    def __init__(self, topic: str, declaration: Declaration, kafka: Mapping[str, str], journal: Journal | NoJournal):
        self.reports = DeliveryReports()
        self.journal = journal
        self.in_transaction = False
        self._topic = topic
        self._answers = declaration.acks is not Acks.NOBODY
        self._delivery_reports = declaration.delivery_reports
        self._retried = declaration.retries(kafka)
        self._number = 0
        self._refusals: list[tuple[int, str]] = []
        self.name(new_producer_id())

    def name(self, producer_id: str) -> None:
        """Whose events these are, before the first of them."""
        self.producer_id = self.journal.producer = producer_id
        self._prefix = f"{producer_id}:".encode()

    def send(self, client: Client, event: Event) -> Handle:
        self._number += 1
        number = self._number
        id_ = event.id or f"{self.producer_id}:{number}"
        handle = Handle(self.reports, number, id_, event.topic or self._topic)
        answer = MethodType(self._receipt, handle) if self._delivery_reports else MethodType(self._answered, number)
        self.journal.sent(number, number, event.id)
        self.reports.sent(number, number)
        try:
            self._hand_over(client, event, number, answer)
        except BaseException as error:
            self.reports.fail(number, NEVER_LEFT if isinstance(error, Exception) else INTERRUPTED)
            raise
        client.poll()
        if number % _SETTLE_EVERY == 0 and not self.in_transaction:
            self._tell(self.reports.settle_answered())
        return handle

    def send_all(self, client: Client, events: Sequence[Event]) -> None:
        """Without a detour per event: what cannot be handed over at once goes the long way."""
        numbers = self._numbers(events)
        self._intend(events, numbers)
        answered, produce, poll = self._answered, client.produce, client.poll
        shared = (
            None
            if self._delivery_reports
            else Failures(self._topic, events, numbers, self.reports.fail, self._report_of)
        )
        prefix, own_topic = self._prefix, self._topic
        number = 0
        try:
            for number, event in zip(numbers, events, strict=True):
                value, key, partition, _, id_, extra, topic = event
                answer = shared or MethodType(answered, number)
                if extra or id_ is not None or value is None:
                    headers = headers_of(value, prefix + b"%d" % number if id_ is None else id_.encode(), extra)
                else:  # the same without a call
                    headers = [(EVENT_ID, prefix + b"%d" % number), (EVENT_CHECKSUM, b"%08x" % crc32(value))]
                try:
                    produce(topic or own_topic, value, key, partition, answer, headers=headers)
                except (BufferError, KafkaException):
                    self._hand_over(client, event, number, answer)
                if number % _SERVE_EVERY == 0:
                    poll()
        except BaseException:
            self._account_for(numbers, number)
            raise
        finally:
            del produce  # the traceback of an error would keep the driver's producer
        poll()

    def _account_for(self, numbers: Sequence[int], reached: int) -> None:
        """What was not handed over must not pass for answered when the others are."""
        self.reports.fail(reached, INTERRUPTED)
        for number in numbers:
            if number > reached:
                self.reports.fail(number, NEVER_LEFT)

    def _numbers(self, events: Sequence[Event]) -> Sequence[int]:
        if events and events[0].number:
            return [event.number for event in events]
        first = self._number + 1
        self._number += len(events)
        return range(first, self._number + 1)

    def _intend(self, events: Sequence[Event], numbers: Sequence[int]) -> None:
        """On disk before the first of them is handed over."""
        if set(map(_ID, events)) - {None}:
            for number, event in zip(numbers, events, strict=True):
                self.journal.sent(number, number, None if event.id is None else require_id(event.id))
        else:
            for first, last in runs(numbers):
                self.journal.sent(first, last)
        for first, last in runs(numbers):
            self.reports.sent(first, last)

    def _hand_over(self, client: Client, event: Event, number: int, answer: Any) -> None:
        id_ = self._prefix + b"%d" % number if event.id is None else event.id.encode()
        headers = headers_of(event.value, id_, event.headers)
        topic = event.topic or self._topic
        while True:
            try:
                client.produce(topic, event.value, event.key, event.partition, on_delivery=answer, headers=headers)
                return
            except BufferError:
                client.poll(_FULL_SECONDS)
            except KafkaException as error:
                trouble = client.trouble(error)
                if not isinstance(trouble, Refused):
                    raise trouble from error
                self.reports.fail(number, DeliveryReport(Outcome.REFUSED, trouble.message))
                return

    def _receipt(self, handle: Handle, error: KafkaError | None, message: Message) -> None:
        if error is None:
            handle.partition, handle.offset = message.partition(), message.offset()
        self._answered(handle.number, error, message)

    def _answered(self, number: int, error: KafkaError | None, _message: Message) -> None:
        """Called for each answer, or without receipts for each failure."""
        if error is not None or not self._answers:
            self.reports.fail(number, self._report_of(error))
        elif not self.in_transaction:
            self.reports.ack(number)

    def _report_of(self, error: KafkaError | None) -> DeliveryReport:
        if error is None or not self._answers:
            return NOBODY_ANSWERS
        return DeliveryReport(outcome_of(error, self._retried), error.str())

    # What is known

    def settle_answered(self) -> None:
        """Everybody has answered, or nobody was asked to."""
        self._tell(self.reports.settle(ACKED if self._answers else NOBODY_ANSWERS))

    def settle_unanswered(self, why: str) -> None:
        self._tell(self.reports.settle(DeliveryReport(Outcome.UNKNOWN, why)))

    def end_transaction(self, word: str, number: int, report: DeliveryReport) -> None:
        self.in_transaction = False
        parts = self.reports.settle(report)
        self._tell([part for part in parts if part.report.outcome is Outcome.REFUSED])
        self.journal.transaction(word, number)

    def take_refusals(self) -> list[tuple[int, str]]:
        taken, self._refusals = self._refusals, []
        return taken

    def _tell(self, parts: Sequence[Settled]) -> None:
        self._refusals += [(part.first, part.report.why) for part in parts if part.report.outcome is Outcome.REFUSED]
        self.journal.settled(parts)
