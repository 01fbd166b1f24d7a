"""Kafka topics, as everybody else meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.limits import limits
from fencepost.kafka.names import require_topic
from fencepost.kafka.topics import topic_id_and_partitions
from fencepost.rules.producer import Acks, required_producer_settings
from fencepost.rules.sinks import Capabilities, WritePath
from fencepost.sinks.auditing import Columns, LandedRecords
from fencepost.sinks.handlers import Output
from fencepost.sinks.kafka.demo import DEMO
from fencepost.sinks.kafka.last_records import COLUMNS, last_records
from fencepost.sinks.kafka.options import KafkaOptions
from fencepost.sinks.kafka.outputs import ORIGIN, Headers, Records, kept_time, require_types
from fencepost.sinks.kafka.settings import KafkaSettings
from fencepost.sinks.kafka.store import KafkaStore
from fencepost.sinks.kind import Fit, SinkJob

OFFSETS_MINUTES = 24 * 60  # where nobody says; brokers' default is a week


@dataclass(frozen=True)
class KafkaTarget:
    """Topics that are there. Rows are Arrow batches, records as they came, or what outputs are made of."""

    settings: KafkaSettings
    as_they_came: bool = False
    origins: bool = True  # each of them says in a header where it came from
    outputs: Callable[[Any], Iterable[Output]] | None = None
    reuse: bool = True  # a partition's next batch comes to the same store, by and large

    def open(self) -> KafkaStore:
        if self.as_they_came:
            return KafkaStore(self.settings, records=partial(_as_they_came, origins=self.origins), reuse=self.reuse)
        return KafkaStore(self.settings, self.outputs, reuse=self.reuse)

    def staying(self) -> KafkaTarget:
        return replace(self, reuse=True)

    def without_secrets(self) -> tuple[KafkaTarget, Mapping[str, str]]:
        """Any setting may hold a password; an address alone does not."""
        kafka = self.settings.kafka
        if not kafka.keys() - {"bootstrap.servers"}:
            return self, {}
        return replace(self, settings=replace(self.settings, kafka={})), kafka

    def with_secrets(self, secrets: Mapping[str, str]) -> KafkaTarget:
        return replace(self, settings=replace(self.settings, kafka=secrets))


class KafkaKind:
    """Topics of the source's own cluster; the ledger is a consumer group."""

    capabilities = Capabilities(
        "kafka",
        frozenset({WritePath.DIRECT}),
        atomic=True,
        dead_letters=True,
        letter_topic=True,
        records=True,
        group_ledger=True,
    )
    options = KafkaOptions
    demo = DEMO

    def settings(self, _job: SinkJob) -> Mapping[str, str]:
        required = required_producer_settings(Guarantee.EXACTLY_ONCE, Acks.QUORUM)
        return {f"producer {one.name}": one.value for one in required if one.value}

    def dead_letters(self, job: SinkJob) -> str:
        return f"topic {job.letter_topic}"

    def columns(self, _job: SinkJob, rows: pa.Schema) -> Mapping[str, str]:
        require_types(rows)
        return {column.name: str(column.type) for column in rows}

    def fit(self, job: SinkJob, rows: pa.Schema) -> Fit:
        self._settings(job)
        return Fit(self.columns(job, rows), exists=True)

    def prepare(self, job: SinkJob, rows: pa.Schema) -> KafkaTarget:
        require_types(rows)
        return KafkaTarget(self._settings(job), reuse=job.shared)

    def ledger(self, job: SinkJob) -> KafkaStore:
        return KafkaStore(_settings(job))

    def prepare_records(self, job: SinkJob, rows: pa.Schema) -> KafkaTarget:
        require_types(rows)
        settings = self._settings(job)
        return KafkaTarget(settings, as_they_came=True, origins=job.options.provenance, reuse=job.shared)

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
        return LandedRecords(job.options.targets, job.letter_topic, ORIGIN)

    def last_rows(self, job: SinkJob, most: int) -> tuple[list[str], list[tuple[Any, ...]]]:
        return COLUMNS, last_records(job.kafka, job.options.targets, most)

    def _settings(self, job: SinkJob) -> KafkaSettings:
        """Raises Usage for a topic that does not exist: nobody makes one by writing to it."""
        with Cluster(job.kafka) as cluster:
            for topic in (*job.options.targets, *([job.letter_topic] if job.letter_topic else [])):
                topic_id_and_partitions(cluster, topic)
            return _settings(job).within(limits(cluster))

    def expires_after(self, job: SinkJob) -> float:
        return expires_after(job.kafka)


def expires_after(kafka: Mapping[str, str]) -> float:
    """Seconds for which a group's offsets are kept."""
    with Cluster(kafka) as cluster:
        known = limits(cluster)
    return 60.0 * (known.offsets_minutes if known else OFFSETS_MINUTES)


def _settings(job: SinkJob) -> KafkaSettings:
    options: KafkaOptions = job.options
    return KafkaSettings(
        job.kafka,
        job.pipeline,
        options.targets,
        ledger_group=options.group,
        letters=job.letter_topic or "",
        most_bad=job.most_bad,
    )


def _as_they_came(messages: list[Message], origins: bool) -> Iterator[Records]:
    """The records of one partition."""
    nothing = [None] * len(messages)
    headers: list[Any] = list(map(Message.headers, messages))
    yield Records(
        list(map(Message.value, messages)),
        list(map(Message.key, messages)),
        nothing,
        _with_origins(messages, headers) if origins else headers,
        nothing,
        [kept_time(at) if at <= 0 else at for _, at in map(Message.timestamp, messages)],
    )


def _with_origins(messages: list[Message], own: list[Any]) -> Sequence[list[Any]]:
    prefix = f"{messages[0].topic()}/{messages[0].partition()}/" if messages else ""
    origins = [f"{prefix}{offset}/0".encode() for offset in map(Message.offset, messages)]
    if not any(own):
        return Headers(origins, None)
    return [[(ORIGIN, origin), *(theirs or ())] for origin, theirs in zip(origins, own, strict=True)]


KIND = KafkaKind()
