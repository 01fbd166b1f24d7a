"""Sending with acks=all: every event ends acked, refused or unknown. Bounded memory, whatever the source."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from fencepost.cluster.settings import librdkafka_settings
from fencepost.errors import Unreachable, Usage
from fencepost.outcome import Outcome

_log = logging.getLogger("fencepost.librdkafka")
QUEUE = 100_000  # events in memory at most: sending waits when they are that many

# The broker's answers after which a record is certainly not in the log. Any other error leaves it unknown.
REFUSALS = {
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_RECORD,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
}


@dataclass(frozen=True)
class Event:
    """One record to be sent."""

    value: bytes
    key: bytes | None = None
    partition: int = -1  # by key, or any


@dataclass
class Sent:
    """How many events ended how, and why the first one that was not acked was not."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    reason: str = ""

    def settle(self, error: KafkaError | None) -> None:
        outcome = outcome_of(error)
        self.outcomes[outcome] += 1
        if error is not None and not self.reason:
            self.reason = error.str()

    @property
    def all_acked(self) -> bool:
        return self.outcomes.total() == self.outcomes[Outcome.ACKED]


def outcome_of(error: KafkaError | None) -> Outcome:
    if error is None:
        return Outcome.ACKED
    return Outcome.REFUSED if error.code() in REFUSALS else Outcome.UNKNOWN


def send(kafka: Mapping[str, str], topic: str, events: Iterable[Event]) -> Sent:
    """Send them all and wait for every answer."""
    sent = Sent()
    producer = _producer(kafka)

    def settle(error: KafkaError | None, _message: Any) -> None:
        sent.settle(error)

    for event in events:
        _enqueue(producer, topic, event, settle)
        producer.poll(0)
    while producer.flush(1.0):
        pass  # ends by itself: what is not answered within delivery.timeout.ms is settled as unknown
    return sent


def _producer(kafka: Mapping[str, str]) -> Producer:
    settings: dict[str, Any] = {
        **librdkafka_settings(kafka),
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 20,
        "partitioner": "murmur2_random",  # a key goes where a Java producer would send it
        "queue.buffering.max.messages": QUEUE,
    }
    try:
        return Producer(settings, logger=_log)
    except KafkaException as error:
        raise Usage(f"the producer's settings are wrong: {error.args[0].str()}") from error


def _enqueue(producer: Producer, topic: str, event: Event, settle: Any) -> None:
    while True:
        try:
            producer.produce(topic, event.value, event.key, event.partition, on_delivery=settle)
            return
        except BufferError:
            producer.poll(0.1)
        except KafkaException as error:
            raise Unreachable(f"topic {topic!r}: {error.args[0].str()}") from error
