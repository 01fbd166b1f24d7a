"""What the pages ask, each question with how long its answer stays. All of them share it: see answers.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import TypeVar

from fencepost.admin.attention import Attention, of_layout, of_transactions, worst_first
from fencepost.errors import Unreachable
from fencepost.kafka.client import Cluster
from fencepost.kafka.layout import Layout, list_offsets, minimums, read_layout
from fencepost.kafka.open_transactions import (
    OpenProducer,
    TransactionDescription,
    TransactionSummary,
    find_hanging,
    list_transactions,
    open_producers,
    open_transactions,
)
from fencepost.kafka.topics import TopicDescription, TopicSetting, describe_topic, topic_facts, topic_settings
from fencepost.kafka.wire import Wire
from fencepost.model import TopicPartition
from fencepost.rules.findings import Finding
from fencepost.rules.topics import topic_findings
from fencepost.web.answers import Answer, Answers

T = TypeVar("T")
GLANCE, LOOK, SEARCH = 2.0, 5.0, 60.0  # seconds that an answer stays


class Connections:
    """To the brokers, by either client; opened when first needed, and anew after trouble."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self.kafka = dict(kafka)
        self._lock = Lock()
        self._wire: Wire | None = None
        self._cluster: Cluster | None = None

    def wire(self, question: Callable[[Wire], T]) -> T:
        with self._lock:
            wire = self._wire = self._wire or Wire(self.kafka)
        try:
            return question(wire)
        except Unreachable:
            self._drop(wire)
            raise

    def cluster(self, question: Callable[[Cluster], T]) -> T:
        with self._lock:
            cluster = self._cluster = self._cluster or Cluster(self.kafka)
        return question(cluster)

    def close(self) -> None:
        with self._lock:
            wire, cluster = self._wire, self._cluster
            self._wire = self._cluster = None
        if wire is not None:
            wire.close()
        if cluster is not None:
            cluster.close()

    def _drop(self, wire: Wire) -> None:
        """A client that lost its brokers may look for them where they are no more."""
        with self._lock:
            if self._wire is not wire:
                return
            self._wire = None
        wire.close()


@dataclass(frozen=True)
class TopicState:
    """Everything that the page of a topic shows."""

    topic: TopicDescription
    min_in_sync: int | None
    settings: Sequence[TopicSetting] | None
    findings: Sequence[Finding]  # what weakens a guarantee
    holding: Sequence[OpenProducer]  # inside transactions, where the last stable offset is behind the end


class State:
    """Asked by any number of threads."""

    def __init__(self, connections: Connections, answers: Answers) -> None:
        self.connections = connections
        self.answers = answers

    def layout(self) -> Answer[Layout]:
        return self._wire("layout", lambda wire: read_layout(wire, self._minimums(wire)), GLANCE)

    def _minimums(self, wire: Wire) -> dict[str, int]:
        """They seldom change, and are asked of all topics at once."""
        known = self.answers.get("topics", lambda: _topics(wire), SEARCH).require()
        return self.answers.get(("minimums", *known), lambda: minimums(wire, known), SEARCH).require()

    def topic(self, name: str) -> Answer[TopicState]:
        return self._cluster(("topic", name), lambda cluster: self._topic(cluster, name), GLANCE)

    def _topic(self, cluster: Cluster, name: str) -> TopicState:
        found = describe_topic(cluster, name)
        facts = topic_facts(cluster, name)
        gaps = [
            TopicPartition(name, one.partition)
            for one in found.partitions
            if one.end_offset is not None and (one.last_stable_offset or 0) < one.end_offset
        ]
        holding = self.connections.wire(lambda wire: open_producers(wire, gaps)) if gaps else []
        return TopicState(
            found,
            facts.min_insync_replicas if facts else None,
            topic_settings(cluster, name),
            list(topic_findings(facts)) if facts else [],
            holding,
        )

    def transactions(self) -> Answer[list[TransactionSummary]]:
        return self._wire("transactions", list_transactions, GLANCE)

    def open_transactions(self) -> Answer[list[TransactionDescription]]:
        return self._wire("open", open_transactions, GLANCE)

    def hanging(self) -> Answer[list[OpenProducer]]:
        """All partitions are looked at: a search, and not a glance."""
        return self._wire("hanging", lambda wire: find_hanging(wire, self.layout().require().leaders), SEARCH)

    def stable_offsets(self) -> Answer[dict[TopicPartition, int]]:
        leaders = self.layout().require().leaders
        return self._wire("stable", lambda wire: list_offsets(wire, leaders, stable=True), LOOK)

    def attention(self) -> list[Attention]:
        """Of what is known; what cannot be asked is told where it is shown."""
        now = datetime.now(UTC)
        found: list[Attention] = []
        if layout := self.layout().value:
            found += of_layout(layout, now)
        found += of_transactions(self.open_transactions().value or (), self.hanging().value or (), now)
        return worst_first(found)

    def _wire(self, key: object, question: Callable[[Wire], T], fresh: float) -> Answer[T]:
        return self.answers.get(key, lambda: self.connections.wire(question), fresh)

    def _cluster(self, key: object, question: Callable[[Cluster], T], fresh: float) -> Answer[T]:
        return self.answers.get(key, lambda: self.connections.cluster(question), fresh)


def _topics(wire: Wire) -> list[str]:
    return [one["name"] for one in wire.ask(lambda admin: admin.describe_topics(None), "the topics")]
