"""Records into an open transaction: all of them are in the log when it returns, or none will ever be read."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from fencepost.errors import Refused, Unreachable
from fencepost.kafka.errors import outcome_of
from fencepost.kafka.producer import Client
from fencepost.model import Outcome
from fencepost.sinks.kafka.outputs import ORIGIN, Record

# The driver gives the interpreter up for every record: threads that send at the same time hinder each other badly.
# Waiting for answers and for commits is another matter, and takes most of a transaction's time.
_FILLING = threading.Lock()
_SERVE_EVERY = 1000  # records between two looks for answers
_FULL_SECONDS = 0.05


class Sending:
    """One transaction's records, through the client that holds it."""

    def __init__(self, client: Client, topics: Sequence[str]) -> None:
        self._client = client
        self._topics = topics
        self._failures: list[KafkaError] = []

    def send(self, records: Iterable[Record]) -> int:
        """How many there were. Waits while the queue is full, and in the end for every answer.

        Raises Refused for a record that the brokers will never take, Fenced, Unreachable.
        """
        with _FILLING:
            count = self._fill(records)
        self._client.drain(lambda: bool(self._failures))
        self._stop_at_failure()
        return count

    def _fill(self, records: Iterable[Record]) -> int:
        default, allowed = self._topics[0], frozenset(self._topics)
        produce, failed = self._client.produce, self._failed
        count = 0
        for value, key, named, headers, number in records:
            topic = default if named is None else named
            if topic not in allowed:
                raise _stranger(topic, allowed)
            partition = -1 if number is None else number
            try:
                if headers is None:  # named arguments cost as much as the rest of the call
                    produce(topic, value, key, partition, failed)
                else:
                    produce(topic, value, key, partition, failed, headers=headers)
            except (BufferError, KafkaException):
                self._insist(topic, value, key, partition, headers)
            count += 1
            if count % _SERVE_EVERY == 0:
                self._client.poll()
                self._stop_at_failure()
        return count

    def _insist(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, headers: list[Any] | None
    ) -> None:
        while True:
            try:
                self._client.produce(topic, value, key, partition, self._failed, headers=headers)
                return
            except BufferError:
                self._client.poll(_FULL_SECONDS)
                self._stop_at_failure()
            except KafkaException as error:
                trouble = self._client.trouble(error)
                if isinstance(trouble, Refused):
                    raise Refused(f"topic {topic}{_of(headers)}: {trouble.message}", trouble.remedy) from error
                raise trouble from error

    def _failed(self, error: KafkaError | None, _message: Message) -> None:
        """Called only for failures (delivery.report.only.error)."""
        if error is not None:
            self._failures.append(error)

    def _stop_at_failure(self) -> None:
        """A transaction that lacks a record must not be committed."""
        if not self._failures:
            return
        refused = [one for one in self._failures if outcome_of(one, retried=True) is Outcome.REFUSED]
        said = f"a record of the transaction failed: {(refused or self._failures)[0].str()}"
        if refused:
            raise Refused(said, "fix the record or the topic; nothing of its batch was written")
        raise Unreachable(said)


def _stranger(topic: str, allowed: Collection[str]) -> Refused:
    return Refused(
        f"an output goes to topic {topic!r}, which is not declared ({', '.join(sorted(allowed))})",
        "add it to the sink's topics, or fix the transform",
    )


def _of(headers: list[Any] | None) -> str:
    """Of which source record it is, where it says so."""
    origin = dict(headers or ()).get(ORIGIN)
    return f", the output of {origin.decode()}" if origin else ""
