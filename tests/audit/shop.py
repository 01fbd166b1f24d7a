"""A topic with holes in its offsets, carried into a table by the real sink, and ways to spoil either."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
from confluent_kafka import Producer

from fencepost.audit.request import AuditRequest
from fencepost.audit.scope import committed_ends
from fencepost.delivery import deliver
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster, wait_until
from fencepost.kafka.offsets import TopicReader
from fencepost.kafka.topic_reader import read_topic
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack
from fencepost.model import EVENT_CHECKSUM, EVENT_ID, Batch, Span, Tenure, TopicPartition
from fencepost.rows.shape import PROVENANCE
from fencepost.sinks.postgres import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.columns import columns_for
from fencepost.sinks.postgres.table import make_table
from fencepost.spec import SinkSpec

SPAN = 7  # offsets to a commit
ROWS = pa.schema([("body", pa.string()), ("event", pa.string()), *PROVENANCE])


@dataclass
class Shop:
    """One topic, one table, one pipeline's name."""

    stack: Stack
    partitions: int = 2
    configs: dict[str, str] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"audit_{uuid4().hex[:12]}")

    def __post_init__(self) -> None:
        self.kafka = {"bootstrap.servers": self.stack.bootstrap_servers}
        self.cluster = Cluster(self.kafka)
        create_topic(self.cluster, TopicRequest(self.name, self.partitions, config=self.configs))
        self.settings = PostgresSettings(self.stack.dsn, self.name, self.name, columns_for(ROWS), f"{self.name}_own")
        with closing(PostgresStore(self.settings)) as store:
            make_table(store.connection(), self.name, self.settings.columns)

    # -- the log

    def send(self, sequences: Sequence[int], commit: bool = True, partition: int | None = None, **spoiled: Any) -> None:
        """Events of one producer, in one transaction; `value` and `topic` may be other ones than they should be."""
        producer = Producer({**self.kafka, "transactional.id": f"{self.name}-{uuid4().hex[:6]}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for sequence in sequences:
            honest = self.body(sequence)
            headers: list[tuple[str, str | bytes | None]] = [
                (EVENT_ID, f"p:{sequence}".encode()),
                (EVENT_CHECKSUM, f"{zlib.crc32(honest):08x}".encode()),
            ]
            producer.produce(
                spoiled.get("topic", self.name),
                spoiled.get("value", honest),
                f"k{sequence % 5}".encode(),
                partition=sequence % self.partitions if partition is None else partition,
                headers=headers,
            )
        assert producer.flush(30) == 0
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
        assert wait_until(self._all_is_decided, 30)

    def _all_is_decided(self) -> bool:
        topic = TopicReader(self.cluster, self.name)
        partitions = topic.require_same()
        return committed_ends(self.cluster, partitions) == topic.ends(partitions)

    @staticmethod
    def body(sequence: int) -> bytes:
        return f"order {sequence}".encode()

    def journal(self, folder: Path, *entries: str) -> Path:
        path = folder / "journal.jsonl"
        head = '{"journal": 1, "topic": "' + self.name + '", "producer": "p", "guarantee": "exactly-once"}'
        path.write_text("\n".join([head, *entries]) + "\n")
        return path

    # -- the sink

    def carry(self, guarantee: Guarantee = Guarantee.EXACTLY_ONCE, keep: Any = lambda _sequence: True) -> None:
        """What a pipeline does, with the sink that it uses: span by span up to the end of the topic."""
        topic = TopicReader(self.cluster, self.name)
        with closing(PostgresStore(self.settings)) as store:
            first = topic.positions(store.positions(self.name) if self._has_ledger() else {}, "earliest")
            tenure = store.take_over(self.name, uuid4(), first, topic.topic_ids)
            ends = topic.ends(list(first))
            for at, position in sorted(tenure.positions.items()):
                for start in range(position, ends[at], SPAN):
                    span = Span(start, min(start + SPAN, ends[at]))
                    deliver(guarantee, self._batch(at, span, tenure, keep), store, store)

    def _has_ledger(self) -> bool:
        return bool(self.sql(f"SELECT to_regclass('{self.name}_own.positions')")[0][0])

    def _batch(self, at: TopicPartition, span: Span, tenure: Tenure, keep: Any) -> Batch[Any]:
        records = [
            record
            for record in read_topic(self.kafka, self.name, {at: span})
            if keep(int(dict(record.headers() or [])[EVENT_ID].decode().split(":")[1]))  # type: ignore[union-attr]
        ]
        rows = {
            "body": [(record.value() or b"").decode() for record in records],
            "event": [dict(record.headers() or [])[EVENT_ID].decode() for record in records],  # type: ignore[union-attr]
            "_topic": [at.topic] * len(records),
            "_partition": [at.partition] * len(records),
            "_offset": [record.offset() for record in records],
            "_n": [0] * len(records),
        }
        return Batch({at: span}, iter([pa.RecordBatch.from_pydict(rows, schema=ROWS)]), tenure)

    def sql(self, text: str, *values: object) -> list[Any]:
        with closing(psycopg.connect(self.stack.dsn, autocommit=True)) as connection:
            cursor = connection.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []

    def offset_of(self, sequence: int) -> tuple[int, int]:
        """Partition and offset of an event that landed."""
        ((partition, offset),) = self.sql(f"SELECT _partition, _offset FROM {self.name} WHERE event = 'p:{sequence}'")
        return partition, offset

    # -- the audit

    def request(self, **parts: Any) -> AuditRequest:
        table = {
            "table": self.name,
            "dsn": parts.pop("dsn", self.stack.dsn),
            "ledger_schema": parts.pop("ledger_schema", f"{self.name}_own"),
        }
        given: dict[str, Any] = {
            "sink": SinkSpec.model_validate({"format": "postgres", "options": table}),
            "pipeline": self.name,
            **parts,
        }
        guarantee = given.pop("guarantee", Guarantee.EXACTLY_ONCE)
        return AuditRequest(guarantee, self.kafka, self.name, **given)
