"""Putting a pipeline's positions elsewhere by hand, and saying beforehand what that skips or repeats."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from fencepost.admin.stored import set_positions, stored_state
from fencepost.errors import Usage
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import Start, TopicReader, by_place, require_held
from fencepost.model import TopicPartition
from fencepost.spec import PipelineSpec


@dataclass(frozen=True)
class Move:
    """One partition's change."""

    partition: TopicPartition
    before: int | None  # None: nothing is stored
    after: int
    stays: bool = False  # nobody named it: it keeps what is stored when the others are moved
    first: int | None = None  # of a topic that was created again: its first offset. What is stored was another topic's

    @property
    def skipped(self) -> int:
        """Offsets that will not be read."""
        if self.first is not None:
            return self.after - self.first
        return max(self.after - self.before, 0) if self.before is not None else 0

    @property
    def repeated(self) -> int:
        """Offsets that will be read again, and land again."""
        if self.first is not None:
            return 0  # other records were there
        return max(self.before - self.after, 0) if self.before is not None else 0


@dataclass(frozen=True)
class Repositioning:
    """What is going to change."""

    pipeline: str
    moves: list[Move]
    topic_ids: Mapping[str, str]
    last_batch: datetime | None
    remembers: bool = True  # does the sink keep when a batch landed?

    @property
    def moved(self) -> Mapping[TopicPartition, int]:
        return {move.partition: move.after for move in self.moves if not move.stays}

    @property
    def stays(self) -> Mapping[TopicPartition, int]:
        return {move.partition: move.after for move in self.moves if move.stays}

    @property
    def recreated(self) -> list[str]:
        """Topics of which nothing was read yet: those that were have been deleted."""
        return sorted({move.partition.topic for move in self.moves if move.first is not None})

    @property
    def skipped(self) -> int:
        return sum(move.skipped for move in self.moves)

    @property
    def repeated(self) -> int:
        return sum(move.repeated for move in self.moves)


def propose(
    spec: PipelineSpec, to: Start, topic: str | None = None, complete: bool = True, *, anew: bool = False
) -> Repositioning:
    """What setting the positions, of one topic or of all, would do. Changes nothing.

    Offsets move the partitions that they name. The others stay where they are; one of which nothing is stored begins
    with its first record, as a run would have it. Where nothing is stored of the whole topic, or it was created again,
    they must name every partition (`complete`): nobody knows how far the others were read. `anew`: of a pipeline that
    keeps state, which is built anew from there.

    Raises Usage for a topic that is not the pipeline's, and for offsets that it does not hold.
    """
    if spec.checkpoint is not None and not anew:
        raise Usage(
            f"pipeline {spec.name!r} keeps state, which belongs to the positions where they are",
            "build it anew from elsewhere, into an empty table: fencepost state rebuild --to earliest (docs/state.md)",
        )
    topics = [spec.source.one(topic)] if topic else list(spec.source.origins)
    found = stored_state(spec)
    named = by_place(to, topics) if isinstance(to, Mapping) else None
    with Cluster(spec.kafka) as cluster:
        reader = TopicReader(cluster, *topics)
        first = reader.positions({}, "earliest")
        after = first if named is not None else reader.positions({}, to)
        if named is not None:
            require_held(named, after, reader.ends(after), "--to")
    stale = {
        at.topic
        for at, held in found.stored.items()
        if held.topic_id and held.topic_id != reader.topic_ids.get(at.topic)
    }
    before = {at: position for at, position in found.positions.items() if at.topic not in stale}
    if named is not None:
        if complete:
            _require_complete(named, before, after)
        after = {**after, **{at: before[at] for at in after if at in before}, **named}
    moves = [
        Move(
            at,
            found.positions.get(at),
            position,
            stays=named is not None and at not in named and at.topic not in stale,
            first=min(first.get(at, position), position) if at.topic in stale else None,
        )
        for at, position in sorted(after.items())
    ]
    last = found.activity.last_batch if found.activity else None
    return Repositioning(spec.name, moves, reader.topic_ids, last, remembers=found.activity is not None)


def carry_out(spec: PipelineSpec, proposal: Repositioning) -> None:
    """Set the positions; a run of the pipeline that is under way ends as fenced."""
    set_positions(spec, proposal.moved, proposal.topic_ids, proposal.stays)


def _require_complete(
    named: Collection[TopicPartition], before: Collection[TopicPartition], now: Collection[TopicPartition]
) -> None:
    known = {at.topic for at in before}
    for topic in sorted({at.topic for at in named} - known):
        if unnamed := sorted(at.partition for at in now if at.topic == topic and at not in named):
            lacking = ", ".join(map(str, unnamed))
            raise Usage(
                f"no position of topic {topic} is stored, and --to has no offset for its partitions {lacking}",
                "name each partition, as in 0:120,1:7",
            )
