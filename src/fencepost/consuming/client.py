"""The driver's consumer, which also knows whether it sent a commit twice.

librdkafka repeats a commit whose connection broke, and says so nowhere but in its statistics. The first copy may still
arrive, behind later commits, and move the position back, for as long as the member that sent it is in the group.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from logging import Logger
from typing import Any

from confluent_kafka import Consumer

STATISTICS_MS = 1000


class GroupConsumer(Consumer):
    """One member's."""

    def __init__(self, config: Mapping[str, Any], logger: Logger) -> None:
        self.repeated = False
        self._commits = 0
        more: dict[str, Any] = {}
        if not config["enable.auto.commit"]:  # else the driver commits by itself, and nobody can count along
            more = {"statistics.interval.ms": STATISTICS_MS, "stats_cb": self._hear}
        super().__init__({**config, **more}, logger=logger)

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        self._commits += 1
        return super().commit(*args, **kwargs)

    def _hear(self, statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        sent = sum(broker["req"].get("OffsetCommit", 0) for broker in brokers)
        self.repeated = self.repeated or sent > self._commits
