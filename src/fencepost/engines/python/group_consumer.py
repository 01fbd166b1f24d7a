"""The driver's consumer, which also knows which of its commits are under way, whether it sent one twice, and whether it
has left its group (`kafka/commits.py` says why that matters)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from logging import Logger
from threading import Thread
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from fencepost.kafka.commits import requests_sent
from fencepost.kafka.owned_consumer import OwnedConsumer

STATISTICS_MS = 1000


Answered = Callable[[KafkaError | None, list[TopicPartition]], None]


class GroupConsumer(OwnedConsumer):
    """One member's."""

    def __init__(self, config: Mapping[str, Any], answered: Answered, logger: Logger) -> None:
        self.repeated = False
        self.under_way = 0  # commits that nobody waits for, and that are not answered
        self._commits = 0
        self._classic = config.get("group.protocol") != "consumer"
        self._standing = ""  # in the group, as of the last statistics
        self._tell_answered = answered
        self._logger = logger
        settings = {**config, "statistics.interval.ms": STATISTICS_MS}
        super().__init__(settings, logger, on_commit=self._answered, stats_cb=self._hear_statistics)

    def commit(self, offsets: list[TopicPartition], *, asynchronous: bool) -> list[TopicPartition] | None:
        self._commits += 1
        answer = super().commit(offsets, asynchronous=asynchronous)
        self.under_way += answer is None  # those that are waited for have one
        return answer

    def unsubscribe(self) -> None:
        self._standing = ""
        self.driver.unsubscribe()

    def is_member(self) -> bool:
        """After `unsubscribe`: does the group still count on us?

        A `close` before the group was told says nothing to it, and the others wait until the session times out.
        """
        if self._classic:
            return bool(self.driver.memberid())  # taken from us in the moment when it is told
        return self._standing != "init"  # here the id is ours for life

    def close_within(self, seconds: float) -> None:
        """In a thread of its own: where a rebalance is under way the driver's `close` has been seen never to return
        (librdkafka's issues 4527 and 4884). It is left behind then, out of its group or soon missed by it."""
        closing = Thread(target=self.close, name="closing", daemon=True)
        closing.start()
        closing.join(seconds)
        if closing.is_alive():
            self._logger.warning("the consumer did not close within %.0f seconds: left behind", seconds)

    def _answered(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        self.under_way -= 1
        self._tell_answered(error, partitions)

    def _hear_statistics(self, statistics: str) -> None:
        self._standing = json.loads(statistics).get("cgrp", {}).get("join_state", "")
        self.repeated = self.repeated or requests_sent(statistics, "OffsetCommit").total() > self._commits
