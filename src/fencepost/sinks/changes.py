"""What becomes of stored positions: each change of a ledger as a function of what is stored, compared by the fence.

For ledgers that read everything, decide, and store the result in one step; who reads and stores is not said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from fencepost import fence
from fencepost.errors import CheckpointMismatch
from fencepost.fence import Stored, StoredPosition
from fencepost.model import Batch, Span, StreamBatch, Tenure, TopicPartition


@dataclass(frozen=True)
class Kept:
    """What a ledger keeps of a pipeline that may have state; it moves in one step."""

    stored: Stored
    stream: StreamBatch | None = None  # the last batch of its stream that landed


def taken_over(
    stored: Stored, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
) -> dict[TopicPartition, StoredPosition]:
    """`run` owns the partitions in `first`, whose offsets count where nothing is stored yet."""
    epoch = _epoch_of(stored, run)
    owned = {at: _owned(stored.get(at), to, run, epoch, topic_ids.get(at.topic)) for at, to in first.items()}
    return {**stored, **owned}


def begun(
    stored: Stored, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
) -> dict[TopicPartition, StoredPosition]:
    """Positions for partitions that have none; the owners of the others keep them."""
    return {**taken_over(stored, run, first, topic_ids), **stored}


def renewed(stored: Stored, tenure: Tenure, run: UUID) -> dict[TopicPartition, StoredPosition]:
    """The same owner under a new token. Raises Fenced, or Rewound."""
    fence.require_own(stored, tenure, run)
    return {**stored, **{at: replace(stored[at], owner=run) for at in tenure.positions}}


def set_by_hand(
    stored: Stored,
    positions: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str],
    kept: Mapping[TopicPartition, int],
) -> dict[TopicPartition, StoredPosition]:
    """Nobody owns the positions of these topics: a run that is under way is fenced. Others of the topics are gone."""
    nobody, epoch = uuid4(), fence.newest_epoch(stored) + 1
    stay = {at: stored[at].position if at in stored else to for at, to in kept.items()}
    wanted = {**stay, **positions}
    topics = {at.topic for at in wanted}
    put = {at: StoredPosition(to, nobody, epoch, topic_ids.get(at.topic)) for at, to in wanted.items()}
    return {**{at: held for at, held in stored.items() if at.topic not in topics}, **put}


def advanced(stored: Stored, batch: Batch[Any], now: datetime | None = None) -> Stored:
    """Every position at the batch's end. Raises Fenced unless it is at its start, under its owner."""
    return moved(Kept(stored), batch, now).stored


def retreated(stored: Stored, batch: Batch[Any]) -> Stored:
    """Every position at the batch's start again. Raises Fenced unless it is at its end, under its owner."""
    return put_back(Kept(stored), batch).stored


def moved(kept: Kept, batch: Batch[Any], now: datetime | None = None) -> Kept:
    """As `advanced`; of a stream that keeps state the batch is the last one now, and followed the one before."""
    fence.require_next(kept.stored, kept.stream, batch)
    ends = {at: replace(kept.stored[at], position=span.end, moved_at=now) for at, span in batch.noted.items()}
    return Kept({**kept.stored, **ends}, batch.step.after if batch.step else kept.stream)


def put_back(kept: Kept, batch: Batch[Any]) -> Kept:
    """As `retreated`; of a stream the batch before is the last one again."""
    fence.require_last(kept.stored, kept.stream, batch)
    starts = {at: replace(kept.stored[at], position=span.start) for at, span in batch.noted.items()}
    return Kept({**kept.stored, **starts}, batch.step.before if batch.step else kept.stream)


def stream_begun(kept: Kept, tenure: Tenure, first: StreamBatch) -> Kept:
    """A stream begins where its owner's positions are. Raises CheckpointMismatch where batches have landed."""
    fence.require_start(kept.stored, Batch({at: Span(to, to) for at, to in tenure.positions.items()}, None, tenure))
    if kept.stream is not None and kept.stream.number != first.number:
        raise CheckpointMismatch(f"{tenure.pipeline}: batches of a stream have landed already")
    return replace(kept, stream=first)


def begun_anew(
    stored: Stored,
    positions: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str],
    kept: Mapping[TopicPartition, int],
) -> Kept:
    """As `set_by_hand`, and no batch has landed: neither of a stream, nor one that moved a position."""
    put = set_by_hand(stored, positions, topic_ids, kept)
    return Kept({at: replace(held, moved_at=None) for at, held in put.items()})


def tenure_of(pipeline: str, run: UUID, stored: Stored, partitions: Mapping[TopicPartition, int]) -> Tenure:
    """The term of a run that owns these partitions now."""
    return Tenure(pipeline, run, fence.newest_epoch(stored), {at: stored[at].position for at in partitions})


def _owned(held: StoredPosition | None, first: int, run: UUID, epoch: int, topic_id: str | None) -> StoredPosition:
    if held is None:
        return StoredPosition(first, run, epoch, topic_id)
    return replace(held, owner=run, epoch=epoch, topic_id=topic_id or held.topic_id)


def _epoch_of(stored: Stored, run: UUID) -> int:
    """One more than all before; who is the newest owner stays it."""
    newest = fence.newest_epoch(stored)
    return newest if any(held.owner == run and held.epoch == newest for held in stored.values()) else newest + 1
