"""A pipeline from one topic into two, event by event known by its number, for the tests of the Kafka store alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import pyarrow as pa

from contract.kafka_topics import KafkaTopics
from fencepost.delivery import Observer, deliver, nobody
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Span, Tenure, TopicPartition
from fencepost.sinks.kafka import KafkaSettings, KafkaStore


@dataclass(frozen=True)
class Plan:
    """What a writer must know; it travels to other processes."""

    settings: KafkaSettings
    source: TopicPartition

    def rows(self, span: Span) -> Iterator[pa.RecordBatch]:
        """Even numbers into the first topic, odd ones into the second, with where they come from."""
        ids = list(range(span.start, span.end))
        yield pa.RecordBatch.from_pydict(
            {
                "value": pa.array([str(id_) for id_ in ids], pa.string()),
                "topic": pa.array([self.settings.topics[id_ % 2] for id_ in ids], pa.string()),
                "_topic": pa.array([self.source.topic] * len(ids), pa.string()),
                "_partition": pa.array([self.source.partition] * len(ids), pa.int32()),
                "_offset": pa.array(ids, pa.int64()),
                "_n": pa.array([0] * len(ids), pa.int32()),
            }
        )

    def take_over(self, store: KafkaStore) -> Tenure:
        return store.take_over(self.settings.pipeline, uuid4(), {self.source: 0}, {})

    def carry(
        self,
        store: KafkaStore,
        tenure: Tenure,
        start: int,
        end: int,
        see: Observer = nobody,
        guarantee: Guarantee = Guarantee.EXACTLY_ONCE,
    ) -> Landed:
        span = Span(start, end)
        return deliver(guarantee, Batch({self.source: span}, self.rows(span), tenure), store, store, see)


@dataclass
class Flow:
    """The topics, and the stores that are open on them. Use it in a `with` block."""

    topics: KafkaTopics
    kafka: dict[str, str] = field(default_factory=dict)  # the writers' own way to the brokers, where it is another
    stores: list[KafkaStore] = field(default_factory=list)

    def __enter__(self) -> Flow:
        self.source = self.topics.make(3)
        self.targets = (self.topics.make(2), self.topics.make(2))
        settings = KafkaSettings(self.kafka or self.topics.kafka, f"p-{uuid4().hex[:12]}", self.targets)
        self.plan = Plan(settings, TopicPartition(self.source, 0))
        return self

    def __exit__(self, *_failure: object) -> None:
        for store in self.stores:
            store.close()

    def open(self) -> KafkaStore:
        """A new handle, as a new process would have it."""
        store = KafkaStore(self.plan.settings)
        self.stores.append(store)
        return store

    def landed(self) -> list[int]:
        """Every number that a reader of committed records finds, in both topics."""
        return sorted(int(value) for topic in self.targets for value in self.topics.committed(topic))

    def position(self) -> int:
        return self.open().positions(self.plan.settings.pipeline)[self.plan.source]
