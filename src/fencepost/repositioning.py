"""Putting a pipeline's positions elsewhere by hand, and saying beforehand what that skips or repeats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from fencepost.cluster.client import Cluster
from fencepost.cluster.positions import Start, TopicReader
from fencepost.model import TopicPartition
from fencepost.spec import PipelineSpec
from fencepost.standing import set_positions, standing


@dataclass(frozen=True)
class Move:
    """One partition's change."""

    partition: TopicPartition
    before: int | None  # None: nothing is stored
    after: int

    @property
    def skipped(self) -> int:
        """Offsets that will not be read."""
        return max(self.after - self.before, 0) if self.before is not None else 0

    @property
    def repeated(self) -> int:
        """Offsets that will be read again, and land again."""
        return max(self.before - self.after, 0) if self.before is not None else 0


@dataclass(frozen=True)
class Repositioning:
    """What is going to change."""

    pipeline: str
    moves: list[Move]
    topic_ids: Mapping[str, str]
    last_batch: datetime | None

    @property
    def skipped(self) -> int:
        return sum(move.skipped for move in self.moves)

    @property
    def repeated(self) -> int:
        return sum(move.repeated for move in self.moves)


def propose(spec: PipelineSpec, to: Start, topic: str | None = None) -> Repositioning:
    """What setting the positions, of one topic or of all, would do. Changes nothing.

    Raises Usage for a topic that is not the pipeline's, and for offsets that it does not hold.
    """
    reader = TopicReader(Cluster(spec.kafka), *([spec.source.one(topic)] if topic else spec.source.origins))
    after = reader.positions({}, to)
    found = standing(spec)
    before, last = found.positions, found.activity.last_batch if found.activity else None
    moves = [Move(partition, before.get(partition), position) for partition, position in sorted(after.items())]
    return Repositioning(spec.name, moves, reader.topic_ids, last)


def carry_out(spec: PipelineSpec, proposal: Repositioning) -> None:
    """Set the positions; a run of the pipeline that is under way ends as fenced."""
    set_positions(spec, {move.partition: move.after for move in proposal.moves}, proposal.topic_ids)
