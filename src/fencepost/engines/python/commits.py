"""How a member's position is committed to its group: the styles, as the `Progress` of the delivery orders.

Whatever the style, one commit at a time is under way (`kafka/commits.py` says why), positions never go back, and the
last commit before partitions are given away is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from time import monotonic
from typing import Any, Protocol

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.kafka.commits import OneCommit, commit_now, driver_offsets
from fencepost.kafka.owned_consumer import OwnedConsumer
from fencepost.model import Batch, TopicPartition


class Commit(StrEnum):
    """The styles."""

    AUTO = "auto"  # now and then, in the background; of what was processed only
    SYNC = "sync"
    ASYNC = "async"


class CommitStyle(Protocol):
    """Moves the group's offsets."""

    def advance(self, batch: Batch[Any]) -> None:
        """What lies before the batch's end is done. Raises Fenced when the group has another owner for it."""

    def tick(self) -> None:
        """Nothing comes at the moment: commit what is due by now. Raises as `advance` does."""

    def settle(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit what is done of these partitions, and wait for the answer: they are about to be given away."""

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are somebody else's now: commit nothing of them."""


class _Positions:
    """What is done and what is committed, by partition. Neither goes back."""

    def __init__(self) -> None:
        self.done: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}

    def move(self, batch: Batch[Any]) -> None:
        for place, span in batch.spans.items():
            self.done[place] = max(span.end, self.done.get(place, 0))

    def due(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        wanted = self.done if partitions is None else {p: self.done[p] for p in partitions if p in self.done}
        return {place: end for place, end in wanted.items() if end > self.committed.get(place, -1)}

    def take(self, committed: Mapping[TopicPartition, int]) -> None:
        for place, end in committed.items():
            self.committed[place] = max(end, self.committed.get(place, -1))

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        for place in partitions:
            self.done.pop(place, None)
            self.committed.pop(place, None)


class SyncCommits:
    """Each commit is waited for; by time: only when the last one is old enough."""

    def __init__(self, consumer: OwnedConsumer, every: float = 0.0) -> None:
        self._consumer = consumer
        self._every = every
        self._last = monotonic()
        self._positions = _Positions()

    def advance(self, batch: Batch[Any]) -> None:
        self._positions.move(batch)
        self.tick()

    def tick(self) -> None:
        if monotonic() - self._last >= self._every:
            self._commit(self._positions.due())

    def settle(self, partitions: Iterable[TopicPartition]) -> None:
        self._commit(self._positions.due(partitions))

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        self._positions.forget(partitions)

    def _commit(self, due: Mapping[TopicPartition, int]) -> None:
        if due:
            commit_now(self._consumer, due)
            self._positions.take(due)
            self._last = monotonic()


class AsyncCommits:
    """One commit under way: what is done meanwhile goes with the next, and what failed too.

    The answers arrive while the consumer is polled, by `answered`, which must be its on_commit.
    """

    def __init__(self, consumer: OwnedConsumer, every: float = 0.0, mark: str = "") -> None:
        self._consumer = consumer
        self._every = every
        self._mark = mark  # goes with every offset, as its metadata
        self._last = monotonic()
        self._positions = _Positions()
        self._commit = OneCommit(consumer)
        self._sent: dict[TopicPartition, int] = {}  # what the commit under way is of

    def advance(self, batch: Batch[Any]) -> None:
        self._positions.move(batch)
        self.tick()

    def tick(self) -> None:
        due = self._positions.due()
        if due and not self._commit.under_way and monotonic() - self._last >= self._every:
            self._last = monotonic()
            self._commit.send(driver_offsets(due, self._mark))
            self._sent = due

    def answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        """What failed stays due, and goes with the next one."""
        sent, self._sent = self._sent, {}
        if self._commit.answered(error, partitions) is None:
            self._positions.take(sent)

    def settle(self, partitions: Iterable[TopicPartition]) -> None:
        """Waited for. It goes behind the one that may be under way: where the connection broke just now that one may
        still arrive behind it, until the group's next generation refuses it, and what lies between is repeated."""
        due = {place: self._positions.done[place] for place in partitions if place in self._positions.done}
        if due:
            commit_now(self._consumer, due, self._mark)
            self._positions.take(due)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        self._positions.forget(partitions)
        for place in partitions:
            self._sent.pop(place, None)
