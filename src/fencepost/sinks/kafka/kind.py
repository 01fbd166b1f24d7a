"""Kafka topics, as everybody else meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.names import require_topic
from fencepost.kafka.topics import topic_id_and_partitions
from fencepost.rules.producer import Acks, required_producer_settings
from fencepost.rules.sinks import Capabilities, WritePath
from fencepost.sinks.auditing import Columns, LandedRecords
from fencepost.sinks.handlers import Output
from fencepost.sinks.kafka.options import KafkaOptions
from fencepost.sinks.kafka.outputs import ORIGIN, Record, require_columns
from fencepost.sinks.kafka.settings import KafkaSettings
from fencepost.sinks.kafka.store import KafkaStore
from fencepost.sinks.kind import Fit, SinkJob


@dataclass(frozen=True)
class KafkaTarget:
    """Topics that are there. Rows are Arrow batches, records as they came, or what outputs are made of."""

    settings: KafkaSettings
    as_they_came: bool = False
    origins: bool = True  # each of them says in a header where it came from
    outputs: Callable[[Any], Iterable[Output]] | None = None

    def open(self) -> KafkaStore:
        if self.as_they_came:
            return KafkaStore(self.settings, records=partial(_as_they_came, origins=self.origins))
        return KafkaStore(self.settings, self.outputs)


class KafkaKind:
    """Topics of the source's own cluster; the ledger is a consumer group."""

    capabilities = Capabilities(
        "kafka",
        frozenset({WritePath.DIRECT}),
        atomic=True,
        engines=frozenset({"python"}),
        records=True,
        group_ledger=True,
    )
    options = KafkaOptions

    def settings(self, _job: SinkJob) -> Mapping[str, str]:
        required = required_producer_settings(Guarantee.EXACTLY_ONCE, Acks.QUORUM)
        return {f"producer {one.name}": one.value for one in required if one.value}

    def columns(self, _job: SinkJob, rows: pa.Schema) -> Mapping[str, str]:
        require_columns(rows.names)
        return {column.name: str(column.type) for column in rows}

    def fit(self, job: SinkJob, rows: pa.Schema) -> Fit:
        self._require_topics(job)
        return Fit(self.columns(job, rows), exists=True)

    def prepare(self, job: SinkJob, rows: pa.Schema) -> KafkaTarget:
        require_columns(rows.names)
        self._require_topics(job)
        return KafkaTarget(_settings(job))

    def ledger(self, job: SinkJob) -> KafkaStore:
        return KafkaStore(_settings(job))

    def prepare_records(self, job: SinkJob, rows: pa.Schema) -> KafkaTarget:
        require_columns(rows.names)
        self._require_topics(job)
        return KafkaTarget(_settings(job), as_they_came=True, origins=job.options.provenance)

    def output_target(
        self,
        kafka: Mapping[str, str],
        pipeline: str,
        topics: tuple[str, ...],
        group: str,
        make: Callable[[Any], Iterable[Output]],
    ) -> KafkaTarget:
        return KafkaTarget(KafkaSettings(kafka, pipeline, topics, ledger_group=group), outputs=make)

    by_name = "topic:NAME"

    def named(self, *names: str) -> KafkaOptions:
        first, *others = map(require_topic, names)
        return KafkaOptions.model_validate({"topic": first, "topics": others})

    def what_landed(self, job: SinkJob, _columns: Columns) -> LandedRecords:
        return LandedRecords(job.options.topic)

    def _require_topics(self, job: SinkJob) -> None:
        """Raises Usage for one that does not exist: nobody makes a topic by writing to it."""
        with Cluster(job.kafka) as cluster:
            for topic in job.options.targets:
                topic_id_and_partitions(cluster, topic)


def _settings(job: SinkJob) -> KafkaSettings:
    options: KafkaOptions = job.options
    return KafkaSettings(job.kafka, job.pipeline, options.targets, ledger_group=options.group)


def _as_they_came(messages: list[Message], origins: bool) -> Iterator[Record]:
    parts = (map(Message.value, messages), map(Message.key, messages), repeat(None))
    headers: Iterator[Any] = map(Message.headers, messages)
    return zip(*parts, map(_origin, messages, headers) if origins else headers, repeat(None), strict=False)


def _origin(message: Message, headers: list[Any] | None) -> list[Any]:
    origin = f"{message.topic()}/{message.partition()}/{message.offset()}/0".encode()
    return [(ORIGIN, origin), *headers] if headers else [(ORIGIN, origin)]


KIND = KafkaKind()
