"""What a pipeline's ledger holds, whatever its sink is, and putting it elsewhere by hand."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from fencepost.fence import Stored, require_same_topics
from fencepost.guarantee import Guarantee
from fencepost.model import TopicPartition
from fencepost.sinks.kafka import KafkaSettings, KafkaStore
from fencepost.sinks.postgres import PostgresSettings, PostgresStore, ledger
from fencepost.sinks.postgres.reading import (
    Activity,
    activity,
    last_guarantee,
    reader,
)
from fencepost.spec import KafkaOptions, PipelineSpec, PostgresOptions


@dataclass(frozen=True)
class StoredState:
    """Where a pipeline is, and what it did of late."""

    stored: Stored
    activity: Activity | None  # None: the sink does not keep that
    guarantee: Guarantee | None = None  # under which it ran last, where the sink keeps that

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return {at: held.position for at, held in self.stored.items()}

    def require_same(self, pipeline: str, topic_ids: Mapping[str, str]) -> None:
        """Raises TopicRecreated where a stored topic id is another one."""
        require_same_topics(pipeline, self.stored, topic_ids)

    def taken_out(self, spec: PipelineSpec) -> list[str]:
        """The topics that have positions and are not the pipeline's any more."""
        return sorted({at.topic for at in self.stored}.difference(spec.source.origins))


def stored_state(spec: PipelineSpec) -> StoredState:
    """Takes nothing over, and changes nothing."""
    match spec.sink.options:
        case PostgresOptions() as options:
            with reader(options.dsn or "") as connection:
                found = ledger.read(connection, options.ledger_schema, spec.name)
                did = activity(connection, options.ledger_schema, spec.name)
                word = last_guarantee(connection, options.ledger_schema, spec.name)
            return StoredState(found, did, Guarantee(word) if word else None)
        case KafkaOptions() as options:
            with closing(_topics(spec, options)) as store:
                return StoredState(dict(sorted(store.stored(spec.name).items())), None)


def set_positions(
    spec: PipelineSpec,
    positions: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str],
    kept: Mapping[TopicPartition, int],
) -> None:
    """These and no others of their topics. A run of the pipeline that is under way ends as fenced.

    `kept`: partitions that stay where they are, each with where to begin if nothing is stored of it.
    """
    match spec.sink.options:
        case PostgresOptions() as options:
            settings = PostgresSettings(options.dsn or "", spec.name, options.table, (), options.ledger_schema)
            with closing(PostgresStore(settings)) as table:
                table.set_positions(spec.name, positions, topic_ids, kept)
        case KafkaOptions() as options:
            with closing(_topics(spec, options)) as topics:
                topics.set_positions(spec.name, positions, topic_ids, kept)


def _topics(spec: PipelineSpec, options: KafkaOptions) -> KafkaStore:
    return KafkaStore(KafkaSettings(spec.kafka, spec.name, options.targets, ledger_group=options.group))
