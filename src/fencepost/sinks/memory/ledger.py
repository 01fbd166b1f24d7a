"""A ledger in memory: the fence in its plainest form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import RLock
from typing import Any
from uuid import UUID

from fencepost import fence
from fencepost.fence import StoredPosition
from fencepost.model import Batch, Tenure, TopicPartition

Positions = dict[tuple[str, TopicPartition], StoredPosition]


class MemoryLedger:
    """Positions in a dictionary; a lock makes each call atomic, as a database would."""

    def __init__(self, stored: Positions | None = None, lock: RLock | None = None) -> None:
        self._stored: Positions = {} if stored is None else stored
        self._lock = lock or RLock()

    def stored(self, pipeline: str) -> fence.Stored:
        """Everything of the pipeline, with its owners."""
        with self._lock:
            return {partition: held for (name, partition), held in self._stored.items() if name == pipeline}

    def positions(self, pipeline: str) -> Mapping[TopicPartition, int]:
        return {partition: held.position for partition, held in self.stored(pipeline).items()}

    def done(self, batch: Batch[Any]) -> bool:
        return fence.landed(self.stored(batch.tenure.pipeline), batch)

    def require_start(self, batch: Batch[Any]) -> None:
        fence.require_start(self.stored(batch.tenure.pipeline), batch)

    def advance(self, batch: Batch[Any]) -> None:
        with self._lock:
            self.require_start(batch)
            self._move(batch.tenure.pipeline, {partition: span.end for partition, span in batch.spans.items()})

    def retreat(self, batch: Batch[Any]) -> None:
        with self._lock:
            fence.require_end(self.stored(batch.tenure.pipeline), batch)
            self._move(batch.tenure.pipeline, {partition: span.start for partition, span in batch.spans.items()})

    def _move(self, pipeline: str, positions: Mapping[TopicPartition, int]) -> None:
        for partition, position in positions.items():
            self._stored[pipeline, partition] = replace(self._stored[pipeline, partition], position=position)

    def take_over(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Tenure:
        with self._lock:
            stored = self.stored(pipeline)
            fence.require_same_topics(pipeline, stored, topic_ids)
            epoch = fence.newest_epoch(stored) + 1
            taken = {at: stored[at].position if at in stored else offset for at, offset in first.items()}
            for at, position in taken.items():
                self._stored[pipeline, at] = StoredPosition(position, run, epoch, topic_ids.get(at.topic))
            return Tenure(pipeline, run, epoch, taken)

    def renew(self, tenure: Tenure, run: UUID) -> Tenure:
        with self._lock:
            stored = self.stored(tenure.pipeline)
            fence.require_own(stored, tenure, run)
            for at in tenure.positions:
                self._stored[tenure.pipeline, at] = replace(stored[at], owner=run)
            return tenure.renewed(run, {at: stored[at].position for at in tenure.positions})
