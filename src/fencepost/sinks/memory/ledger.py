"""A ledger in memory: the fence in its plainest form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any
from uuid import UUID

from fencepost import fence
from fencepost.fence import Stored, StoredPosition
from fencepost.model import Batch, Tenure, TopicPartition
from fencepost.sinks import changes

Positions = dict[tuple[str, TopicPartition], StoredPosition]


class MemoryLedger:
    """Positions in a dictionary; a lock makes each call atomic, as a database would."""

    def __init__(self, stored: Positions | None = None, lock: RLock | None = None) -> None:
        self._stored: Positions = {} if stored is None else stored
        self._lock = lock or RLock()

    def stored(self, pipeline: str) -> Stored:
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
        self._change(batch.tenure.pipeline, lambda stored: changes.advanced(stored, batch))

    def retreat(self, batch: Batch[Any]) -> None:
        self._change(batch.tenure.pipeline, lambda stored: changes.retreated(stored, batch))

    def take_over(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Tenure:
        def owned(stored: Stored) -> Stored:
            fence.require_same_topics(pipeline, stored, topic_ids)
            return changes.taken_over(stored, run, first, topic_ids)

        return changes.tenure_of(pipeline, run, self._change(pipeline, owned), first)

    def renew(self, tenure: Tenure, run: UUID) -> Tenure:
        held = self._change(tenure.pipeline, lambda stored: changes.renewed(stored, tenure, run))
        return tenure.renewed(run, {at: held[at].position for at in tenure.positions})

    def _change(self, pipeline: str, change: Callable[[Stored], Stored]) -> Stored:
        with self._lock:
            changed = change(self.stored(pipeline))
            self._stored.update({(pipeline, at): held for at, held in changed.items()})
            return changed
