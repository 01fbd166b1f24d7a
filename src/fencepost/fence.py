"""The fence: what is stored of some partitions against what a batch expects. Every ledger compares here, and only here.

A batch may move positions that stand where it begins, under its owner's token. At its end it has landed already.
Anything else is refused: `Fenced` where somebody else owns them or moved them on, `Rewound` where the sink itself
forgot what it had committed, in a failover for example.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from fencepost.errors import CheckpointMismatch, Fenced, Rewound, TopicRecreated
from fencepost.model import Batch, StreamBatch, StreamStep, Tenure, TopicPartition


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """What a ledger holds of one partition."""

    position: int  # the next offset to read
    owner: UUID | None  # the token of the run that may move it; None: nobody of ours
    epoch: int  # which owner that is
    topic_id: str | None = None
    moved_at: datetime | None = None  # by a batch; None: no batch has moved it, or the ledger does not keep that
    begun: int | None = None  # where the pipeline began to read; None: commits tell, or nobody does


Stored = Mapping[TopicPartition, StoredPosition]
_NOTHING = StoredPosition(0, None, 0)


def landed(stored: Stored, batch: Batch[Any]) -> bool:
    """Is every position at the batch's end (True) or at its start (False), under its owner? Else Fenced or Rewound.

    An empty span is at both: it counts as landed.
    """
    for partition in batch.spans:
        if stored.get(partition, _NOTHING).owner != batch.tenure.token:
            raise not_ours(stored, batch.tenure, partition, str(batch))
    held = {partition: stored[partition].position for partition in batch.spans}
    if all(held[partition] == span.end for partition, span in batch.spans.items()):
        return True
    if all(held[partition] == span.start for partition, span in batch.spans.items()):
        return False
    where = ", ".join(f"{partition} at {position}" for partition, position in sorted(held.items()))
    before = all(held[partition] <= span.start for partition, span in batch.spans.items())
    raise (Rewound if before else Fenced)(f"{batch}: the stored positions are {where}")


def step_landed(stored: Stored, held: StreamBatch | None, batch: Batch[Any], step: StreamStep) -> bool:
    """The same of a batch of a stream that keeps state. `held`: the last of its batches that landed.

    Its number decides: a batch without records emits rows, too, and begins where it ends. Raises CheckpointMismatch
    where it is neither that one nor the next.
    """
    require_own(stored, replace(batch.tenure, positions=dict.fromkeys(batch.spans, 0)))
    if held == step.after:
        return True
    if held is None or (held.query == step.before.query and held.number < step.before.number):
        raise Rewound(f"{batch}: the last one that landed is {held.number if held else 'none'}")
    moved = landed(stored, batch) and any(span.start < span.end for span in batch.spans.values())
    if moved or held != step.before:
        raise CheckpointMismatch(
            f"{batch} of stream {step.after.query} follows batch {step.before.number}, and the last one that landed is "
            f"{held.number} of stream {held.query}"
        )
    return False


def batch_landed(stored: Stored, held: StreamBatch | None, batch: Batch[Any]) -> bool:
    """Of any batch. `held`: of a stream that keeps state the last of its batches that landed."""
    return landed(stored, batch) if batch.step is None else step_landed(stored, held, batch, batch.step)


def require_next(stored: Stored, held: StreamBatch | None, batch: Batch[Any]) -> None:
    """Raises Fenced unless the batch may land: every position is at its start, and a stream's follows `held`."""
    if batch.step is None:
        require_start(stored, batch)
    elif step_landed(stored, held, batch, batch.step):
        raise Fenced(f"{batch}: it has landed already")


def require_last(stored: Stored, held: StreamBatch | None, batch: Batch[Any]) -> None:
    """Raises Fenced unless the batch was the last to land: it may be put back."""
    if batch.step is None:
        require_end(stored, batch)
    elif not step_landed(stored, held, batch, batch.step):
        raise Fenced(f"{batch}: it has not landed")


def require_start(stored: Stored, batch: Batch[Any]) -> None:
    """Raises Fenced unless every position is at the batch's start, under its owner."""
    if landed(stored, batch) and any(span.start < span.end for span in batch.spans.values()):
        raise Fenced(f"{batch}: the stored positions are already at its end")


def require_end(stored: Stored, batch: Batch[Any]) -> None:
    """Raises Fenced unless every position is at the batch's end, under its owner."""
    if not landed(stored, batch):
        raise Fenced(f"{batch}: the stored positions are already at its start")


def require_own(stored: Stored, tenure: Tenure, *tokens: UUID) -> None:
    """Raises Fenced where another run owns one of the term's positions, Rewound where the sink forgot that we did.

    `tokens`: the others that are ours too.
    """
    for partition in tenure.positions:
        if stored.get(partition, _NOTHING).owner not in (tenure.token, *tokens):
            raise not_ours(stored, tenure, partition, tenure.pipeline)


def not_ours(stored: Stored, tenure: Tenure, partition: TopicPartition, doing: str) -> Fenced:
    """Whoever is stored there took over after us (Fenced), or the sink forgot what we did (Rewound).

    It forgot where a token of ours is back that we had replaced, and where what is stored is older than our own
    takeover: every owner has a higher epoch than those before.
    """
    held = stored.get(partition, _NOTHING)
    now = f"run {held.owner} (epoch {held.epoch})" if held.owner else "nobody"
    said = f"{doing}: {partition} is owned by {now}, not by run {tenure.token} (epoch {tenure.epoch})"
    if held.owner in tenure.earlier:
        return Rewound(f"{said}: the sink went back to before that")
    older = held.epoch < tenure.epoch if held.owner else newest_epoch(stored) <= tenure.epoch
    if not older:
        return Fenced(said)
    back = Rewound(f"{said}: the sink went back to before that")
    back.takeover_lost = True
    return back


def newest_epoch(stored: Stored) -> int:
    """How many owners there have been; the next one is one more."""
    return max((held.epoch for held in stored.values()), default=0)


def require_same_topics(pipeline: str, stored: Stored, topic_ids: Mapping[str, str]) -> None:
    """Raises TopicRecreated where a stored position is of another topic than the one of that name now."""
    for partition, held in stored.items():
        now = topic_ids.get(partition.topic)
        if now and held.topic_id and now != held.topic_id:
            raise TopicRecreated(
                f"topic {partition.topic!r} was deleted and created again since {pipeline!r} read it: "
                "its offsets mean other records",
                read_new_topic(partition.topic),
            )


def read_new_topic(topic: str) -> str:
    """What to do where a topic of that name is another one now."""
    return f"to read the new one from its start: fencepost positions set --topic {topic} --to earliest"
