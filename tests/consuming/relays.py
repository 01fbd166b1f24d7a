"""A flow whose pipeline runs in plain Python, into a table or into another topic, and what came out of it, by id."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.kafka.topic_reader import read_committed
from fencepost.kafka.topics import TopicRequest, create_topic
from spark.flows import Flow

QUICK = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}  # a member that stands still is soon missed


@dataclass
class Relay(Flow):
    """`sink` is postgres or kafka; the target has the flow's name, or that with `-out`."""

    sink: str = "postgres"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kafka = {**self.kafka, **QUICK}
        self.target = f"{self.name}-out"
        if self.sink == "kafka":
            create_topic(self.cluster, TopicRequest(self.target, 3))

    def declare(self, **parts: Any) -> Path:
        plain: dict[str, Any] = {"engine": "python", "transform": None, "batch": {"records": 100}}
        if self.sink == "kafka":
            plain |= {"source": {"topic": self.name}, "sink": {"format": "kafka", "options": {"topic": self.target}}}
        return super().declare(**{**plain, **parts})

    def arrived(self) -> Counter[int]:
        """How often each id can be read at the other end."""
        if self.sink == "postgres":
            return Counter(self.landed())
        return Counter(json.loads(record.value() or b"")["id"] for record in read_committed(self.kafka, self.target))

    def lost(self, count: int) -> int:
        return len(set(range(count)) - set(self.arrived()))

    def doubled(self) -> int:
        return sum(times - 1 for times in self.arrived().values())
