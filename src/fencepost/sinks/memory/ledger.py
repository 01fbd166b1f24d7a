"""A ledger in memory: the fence in its plainest form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Any
from uuid import UUID

from fencepost.errors import Fenced, Rewound, TopicRecreated
from fencepost.model import Batch, Tenure, TopicPartition


@dataclass
class Position:
    """One stored position."""

    offset: int  # the next offset to read
    owner: UUID
    epoch: int  # how many owners there have been
    topic_id: str | None


Positions = dict[tuple[str, TopicPartition], Position]


class MemoryLedger:
    """Positions in a dictionary; a lock makes each call atomic, as a database would."""

    def __init__(self, stored: Positions | None = None, lock: RLock | None = None) -> None:
        self._stored: Positions = {} if stored is None else stored
        self._lock = lock or RLock()

    def done(self, batch: Batch[Any]) -> bool:
        with self._lock:
            held = self._held(batch)
            if all(held[partition] == span.end for partition, span in batch.spans.items()):
                return True
            if all(held[partition] == span.start for partition, span in batch.spans.items()):
                return False
            if all(held[partition] <= span.start for partition, span in batch.spans.items()):
                raise Rewound(f"{batch}: the stored positions are {_text(held)}")
            raise Fenced(f"{batch}: the stored positions are {_text(held)}")

    def compare(self, batch: Batch[Any]) -> None:
        """Raise Fenced unless every position is at its span's start under the batch's owner."""
        held = self._held(batch)
        if any(held[partition] != span.start for partition, span in batch.spans.items()):
            raise Fenced(f"{batch}: the stored positions are {_text(held)}")

    def advance(self, batch: Batch[Any]) -> None:
        with self._lock:
            self.compare(batch)
            for partition, span in batch.spans.items():
                self._stored[batch.tenure.pipeline, partition].offset = span.end

    def retreat(self, batch: Batch[Any]) -> None:
        with self._lock:
            held = self._held(batch)
            if any(held[partition] != span.end for partition, span in batch.spans.items()):
                raise Fenced(f"{batch}: the stored positions are {_text(held)}")
            for partition, span in batch.spans.items():
                self._stored[batch.tenure.pipeline, partition].offset = span.start

    def positions(self, pipeline: str) -> Mapping[TopicPartition, int]:
        with self._lock:
            return {
                partition: position.offset for (name, partition), position in self._stored.items() if name == pipeline
            }

    def take_over(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Tenure:
        with self._lock:
            self._same_topics(pipeline, topic_ids)
            epochs = [position.epoch for (name, _), position in self._stored.items() if name == pipeline]
            epoch = max(epochs, default=0) + 1
            taken = {}
            for partition, offset in first.items():
                held = self._stored.get((pipeline, partition))
                taken[partition] = held.offset if held else offset
                self._stored[pipeline, partition] = Position(
                    taken[partition], run, epoch, topic_ids.get(partition.topic)
                )
            return Tenure(pipeline, run, epoch, taken)

    def renew(self, tenure: Tenure, run: UUID) -> Tenure:
        with self._lock:
            offsets = {}
            for partition in tenure.positions:
                position = self._stored.get((tenure.pipeline, partition))
                if position is None or position.owner not in (tenure.token, run):
                    raise Fenced(f"{tenure.pipeline}: {partition} has another owner")
                offsets[partition] = position.offset
            for partition in tenure.positions:
                self._stored[tenure.pipeline, partition].owner = run
            return tenure.renewed(run, offsets)

    def _same_topics(self, pipeline: str, topic_ids: Mapping[str, str]) -> None:
        for (name, partition), position in self._stored.items():
            now = topic_ids.get(partition.topic)
            if name == pipeline and now and position.topic_id and now != position.topic_id:
                raise TopicRecreated(
                    f"{pipeline}: topic {partition.topic!r} was deleted and made anew",
                    "set the positions if the new topic is to be read",
                )

    def _held(self, batch: Batch[Any]) -> dict[TopicPartition, int]:
        """The stored offsets of the batch's partitions; Fenced where another owner holds one."""
        held = {}
        for partition in batch.spans:
            position = self._stored.get((batch.tenure.pipeline, partition))
            if position is None or position.owner != batch.tenure.token:
                owner = "nobody" if position is None else f"run {position.owner} (epoch {position.epoch})"
                raise Fenced(f"{batch}: {partition} is owned by {owner}, not by run {batch.tenure.token}")
            held[partition] = position.offset
        return held


def _text(held: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{partition} at {offset}" for partition, offset in sorted(held.items()))
