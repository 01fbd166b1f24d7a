"""A consumer that never joins its group: it reads and moves the group's offsets, or reads records.

The admin client could do the first, but it ends the whole process when the broker that coordinates the group dies while
it asks. The driver's synchronous commit hangs in an outage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.errors import Fenced, FencepostError, Unknown, Usage
from fencepost.kafka.commits import OneCommit
from fencepost.kafka.config.settings import outsider_settings
from fencepost.kafka.errors import commit_failure, failure, first_error, may_pass
from fencepost.kafka.log import librdkafka_log
from fencepost.kafka.names import require_identity
from fencepost.kafka.owned_consumer import OwnedConsumer
from fencepost.model import TopicPartition

ANSWER_SECONDS = 10.0  # for one request; it is repeated while there is time
_POLL_SECONDS = 0.05
_QUICK = {"retry.backoff.ms": "20"}  # how often it asks again while a transaction is about to end


class StandaloneConsumer(OwnedConsumer):
    """The driver's consumer with a group's name and no membership. Closed by whoever opened it."""

    def __init__(
        self,
        kafka: Mapping[str, str],
        group: str,
        isolation: str = "read_committed",
        own: Mapping[str, Any] | None = None,
    ) -> None:
        """`read_committed` waits for transactions that hold the group's offsets, `own` are more of librdkafka's
        settings. Raises Usage for settings that the driver refuses. Connects in the background."""
        self.group = group
        self._servers = kafka.get("bootstrap.servers", "")
        self._commit = OneCommit(self)
        self._refused: KafkaError | None = None
        config = {
            **_QUICK,
            **outsider_settings(kafka),
            "group.id": require_identity("group.id", group),
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            **(own or {}),
        }
        try:
            super().__init__(config, librdkafka_log, on_commit=self._answered)
        except KafkaException as error:
            raise Usage(f"the consumer's settings are wrong: {error.args[0].str()}", "correct or remove it") from error

    def stored(self, partitions: Iterable[TopicPartition], seconds: float) -> dict[TopicPartition, DriverPartition]:
        """The group's offsets, with their metadata; without the partitions that have none.

        Raises Unreachable when there was no answer in time, or a transaction still holds one of them; Usage.
        """
        wanted = [DriverPartition(at.topic, at.partition) for at in partitions]
        if not wanted:
            return {}
        deadline = time.monotonic() + seconds
        while True:
            left = max(deadline - time.monotonic(), 0.1)
            try:
                found = self.driver.committed(wanted, timeout=min(left, ANSWER_SECONDS))
                wrong = first_error(None, found)
            except KafkaException as error:
                wrong = error.args[0]
            if wrong is None:
                return {TopicPartition(one.topic, one.partition): one for one in found if one.offset >= 0}
            failed = self.failure(wrong)
            if not may_pass(failed) or time.monotonic() > deadline:
                raise failed

    def partitions(self, seconds: float) -> list[TopicPartition]:
        """Every partition of all topics that this user may see. Raises Unreachable."""
        try:
            found = self.driver.list_topics(timeout=seconds).topics
        except KafkaException as error:
            raise self.failure(error.args[0]) from error
        return [TopicPartition(name, number) for name, topic in found.items() for number in topic.partitions]

    def store(self, offsets: list[DriverPartition], give_up: Callable[[], bool]) -> None:
        """Commit them; they stand on return. Raises Unknown when given up before the answer came, or as `failure`.

        One that was given up is waited for before the next is sent.
        """
        self._wait(give_up)
        self._commit.send(offsets)
        self._wait(give_up)
        if self._refused is not None:
            failed = commit_failure(self._refused, f"group {self.group}")
            raise failed if isinstance(failed, Fenced | Unknown) else self.failure(self._refused)

    def _wait(self, give_up: Callable[[], bool]) -> None:
        while self._commit.under_way:
            if give_up():
                raise Unknown(f"group {self.group}: no answer to the commit of its offsets")
            self.poll(_POLL_SECONDS)  # hands the answer over, when it comes

    def _answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        self._refused = self._commit.answered(error, partitions)

    def failure(self, error: KafkaError) -> FencepostError:
        return failure(error, f"group {self.group}", self._servers)
