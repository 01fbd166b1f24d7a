"""What a pipeline's ledger holds, whatever its sink is, and putting it elsewhere by hand."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from fencepost.fence import Stored, require_same_topics
from fencepost.guarantee import Guarantee
from fencepost.model import TopicPartition
from fencepost.sinks.kind import Activity, RemembersBatches
from fencepost.spec import PipelineSpec


@dataclass(frozen=True)
class StoredState:
    """Where a pipeline is, and what it did of late."""

    stored: Stored
    activity: Activity | None = None  # None: the sink does not keep that
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
    kind = spec.sink.kind
    if isinstance(kind, RemembersBatches):
        return StoredState(*kind.state(spec.job))
    with closing(kind.ledger(spec.job)) as ledger:
        return StoredState(dict(sorted(ledger.stored(spec.name).items())))


def set_positions(
    spec: PipelineSpec,
    positions: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str],
    kept: Mapping[TopicPartition, int],
) -> None:
    """These and no others of their topics. A run of the pipeline that is under way ends as fenced.

    `kept`: partitions that stay where they are, each with where to begin if nothing is stored of it.
    """
    with closing(spec.sink.kind.ledger(spec.job)) as ledger:
        ledger.set_positions(spec.name, positions, topic_ids, kept)
