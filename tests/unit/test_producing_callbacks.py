"""Which event a failure belongs to, when all events of a call share one callback."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message

from fencepost.model import Outcome
from fencepost.producing.callbacks import Failures
from fencepost.producing.delivery_reports import DeliveryReport
from fencepost.producing.events import Event

REFUSED = DeliveryReport(Outcome.REFUSED, "too large")
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)


class Call:
    """One call's events, and what is known of them."""

    def __init__(self, *events: Event) -> None:
        self.fates: dict[int, DeliveryReport] = {}
        self._failures = Failures("t", events, range(1, len(events) + 1), self.fates.__setitem__, lambda _: REFUSED)

    def answer(self, error: KafkaError | None, value: bytes | None, key: bytes | None = None, topic: str = "t") -> None:
        self._failures(error, Message(topic=topic, key=key, value=value))


def test_a_failure_belongs_to_the_event_with_that_content() -> None:
    call = Call(Event(b"one"), Event(b"two"), Event(b"two", b"key"), Event(b"two", topic="other"), Event(None, b"key"))
    call.answer(TOO_LARGE, b"two", b"key")
    assert call.fates == {3: REFUSED}
    call.answer(TOO_LARGE, b"two", topic="other")
    call.answer(TOO_LARGE, None, b"key")
    assert call.fates == {3: REFUSED, 4: REFUSED, 5: REFUSED}


def test_a_good_answer_says_nothing_here() -> None:
    call = Call(Event(b"one"))
    call.answer(None, b"one")
    assert call.fates == {}


def test_of_events_that_look_the_same_nobody_knows_which_failed_until_all_have() -> None:
    call = Call(Event(b"same"), Event(b"other"), Event(b"same"))
    call.answer(TOO_LARGE, b"same")
    assert {number: report.outcome for number, report in call.fates.items()} == {1: Outcome.UNKNOWN, 3: Outcome.UNKNOWN}
    assert "one of 2 events" in call.fates[1].why
    call.answer(TOO_LARGE, b"same")
    assert call.fates == {1: REFUSED, 3: REFUSED}


def test_a_failure_that_fits_nobody_makes_all_of_them_unknown() -> None:
    call = Call(Event(b"one"), Event(b"two"))
    call.answer(TOO_LARGE, b"three")
    assert {report.outcome for report in call.fates.values()} == {Outcome.UNKNOWN}
    assert len(call.fates) == 2
