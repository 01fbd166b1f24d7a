"""The Spark engine of a pipeline that keeps state: each term works in a checkpoint of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from typing import cast
from uuid import UUID

from fencepost.engines.listener import BatchDone, Listener
from fencepost.engines.spark.engine import SparkEngine
from fencepost.engines.spark.stateful.carrying import StateCarrier, StateStream
from fencepost.engines.spark.stateful.rows import StreamRows
from fencepost.engines.spark.stateful.takeover import judge_of, not_by_hand, own_checkpoint
from fencepost.errors import CheckpointMismatch
from fencepost.model import Landed, Tenure, TopicPartition


class StateEngine(SparkEngine):
    """It takes over the ledger first, which stands still from then on, and then the state that belongs to it."""

    def positions(self, stored: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Raises CheckpointMismatch, too, before anything is taken from anybody."""
        with not_by_hand():
            found = super().positions(stored)
            self._look(found)
        return found

    def carry(self, tenure: Tenure, once: bool, report: Listener) -> None:
        with not_by_hand():
            super().carry(tenure, once, report)

    def landed(self, _runs: Collection[UUID], _first: Mapping[TopicPartition, int]) -> Landed | None:
        """A batch without records has rows and no span: only the run itself can count them."""
        return None

    def _stream(self, tenure: Tenure, landed: Callable[[BatchDone], None], tell: Listener) -> StateStream:
        rows = cast(StreamRows, self.transform)
        with closing(self.target.open()) as store:
            own = own_checkpoint(judge_of(self.spec, store), tenure)
        return StateStream(
            self._carrier(StateCarrier, tenure, own=own, keeps=rows.keeps, source=rows.source),
            rows.source,
            report=landed,
            tell=tell,
            guard=self._guard(tenure),
            stop=self.stop,
            renew_after=self.renew_after,
            transform=rows.of_stream,
            output_mode=self.spec.output_mode,
        )

    def _look(self, positions: Mapping[TopicPartition, int]) -> None:
        """An owner that is at work moves on meanwhile, and clears away: then it is looked at again."""
        judge, last = judge_of(self.spec, self.ledger), None
        while True:
            try:
                judge.judged(positions)
                return
            except CheckpointMismatch:
                now = judge.kind.last_batch(self.ledger, self.spec.name)
                if now == last or now is None:
                    raise
                stored = self.ledger.positions(self.spec.name)
                last, positions = now, {at: stored.get(at, position) for at, position in positions.items()}
