"""What becomes of stored positions: each change of a ledger as a function of what is stored, compared by the fence.

For ledgers that read everything, decide, and store the result in one step; who reads and stores is not said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from fencepost import fence
from fencepost.fence import Stored, StoredPosition
from fencepost.model import Batch, Tenure, TopicPartition


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


def advanced(stored: Stored, batch: Batch[Any], now: datetime | None = None) -> dict[TopicPartition, StoredPosition]:
    """Every position at the batch's end. Raises Fenced unless it is at its start, under its owner."""
    fence.require_start(stored, batch)
    return {
        **stored,
        **{at: replace(stored[at], position=span.end, moved_at=now) for at, span in batch.spans.items()},
    }


def retreated(stored: Stored, batch: Batch[Any]) -> dict[TopicPartition, StoredPosition]:
    """Every position at the batch's start again. Raises Fenced unless it is at its end, under its owner."""
    fence.require_end(stored, batch)
    return {**stored, **{at: replace(stored[at], position=span.start) for at, span in batch.spans.items()}}


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
