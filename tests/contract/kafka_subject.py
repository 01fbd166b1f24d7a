"""The Kafka store as the suites drive it, every test with a topic and a group of its own on the shared brokers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from uuid import uuid4

import pyarrow as pa
import pytest

from contract.kafka_topics import KafkaTopics
from fencepost.errors import InputCut
from fencepost.kafka.errors import Existing
from fencepost.sinks.kafka import KafkaSettings, KafkaStore
from fencepost.testing.batches import ORDERS, PIPELINE, RETURNS


class InKafka:
    """One topic with one partition, so that what lands has an order."""

    doubles = True
    one_span_only = True  # each source partition has a fence of its own

    def __init__(self, servers: str, request: pytest.FixtureRequest, reuse: bool = True) -> None:
        self.reuse = reuse
        self.topics = KafkaTopics(servers)
        for source in {ORDERS.topic, RETURNS.topic}:
            with suppress(Existing):  # nobody writes to them: only offsets on them are committed
                self.topics.make(1, source)
        self.target = self.topics.make(1)
        self.settings = KafkaSettings(self.topics.kafka, PIPELINE, (self.target,), prefix=f"c-{uuid4().hex[:12]}-")
        self.stores: list[KafkaStore] = []
        request.addfinalizer(self.close)

    def open(self) -> KafkaStore:
        store = KafkaStore(self.settings, reuse=self.reuse)
        self.stores.append(store)
        return store

    def rows(self, ids: Sequence[int]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": pa.array([str(id_) for id_ in ids], pa.string())})

    def cut_rows(self, ids: Sequence[int]) -> Iterator[pa.RecordBatch]:
        yield from self.rows(ids)
        raise InputCut("the input broke off")

    def landed(self) -> list[int]:
        return [int(value) for value in self.topics.committed(self.target)]

    def close(self) -> None:
        for store in self.stores:
            store.close()
