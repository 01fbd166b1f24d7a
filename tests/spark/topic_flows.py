"""A flow from one topic into another, with what goes in and what comes out, by id."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Message
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource  # type: ignore[attr-defined]

from fencepost.kafka.client import wait_until
from fencepost.kafka.topic_reader import read_in_order
from fencepost.kafka.topics import TopicRequest, create_topic, describe_topic
from fencepost.sinks.kafka import KafkaSettings, KafkaStore
from spark.flows import Flow

ID = {"sql": "SELECT key, CAST(id AS STRING) AS value, _from FROM events"}
KEEPS = {"retention.ms": "-1"}  # records that say they are old
_MARKERS_SECONDS = 1.0  # a commit is answered before its markers are written; longer, and a transaction is open


@dataclass
class TopicFlow(Flow):
    """Its target has three partitions; by default a record's value is the id."""

    @property
    def target(self) -> str:
        return f"{self.name}-out"

    def make_topic(self) -> None:
        create_topic(self.cluster, TopicRequest(self.name, self.partitions, config=KEEPS))
        create_topic(self.cluster, TopicRequest(self.target, 3, config=KEEPS))

    def make_more(self, name: str, partitions: int = 1) -> str:
        create_topic(self.cluster, TopicRequest(f"{self.name}-{name}", partitions, config=KEEPS))
        return f"{self.name}-{name}"

    def configure(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        (done,) = self.cluster.admin.incremental_alter_configs([resource]).values()
        done.result(60)

    def declare(self, **parts: Any) -> Path:
        return super().declare(**{"transform": ID, **parts})

    def sink_part(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"format": "kafka", "options": {"topic": self.target, **options}}

    def messages(self, topic: str = "") -> list[Message]:
        """What a reader of committed records finds up to the end, or to where an open transaction begins."""

        def decided() -> bool:
            found = describe_topic(self.cluster, topic or self.target).partitions
            return all(at.last_stable_offset == at.end_offset for at in found)

        wait_until(decided, _MARKERS_SECONDS)
        return read_in_order(self.kafka, topic or self.target, committed=True)

    def landed(self, _column: str = "") -> list[Any]:
        return [json.loads(message.value() or b"null") for message in self.messages()]

    def stored(self) -> list[Any]:
        with closing(KafkaStore(KafkaSettings(self.kafka, self.name, (self.target,)))) as store:
            return [sorted(store.stored(self.name).items()), sorted(self.landed())]

    def positions(self) -> dict[int, int]:
        with closing(KafkaStore(KafkaSettings(self.kafka, self.name, (self.target,)))) as store:
            return {at.partition: position for at, position in store.positions(self.name).items()}
