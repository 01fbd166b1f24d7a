"""At most once with commits under way: batches are read on while those before them wait for their commit's answer.

Only what is committed for certain is processed. A commit that fails un-reads everything behind the last answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.errors import FencepostError
from fencepost.kafka.commits import OneCommit, driver_offsets
from fencepost.kafka.errors import commit_failure
from fencepost.kafka.owned_consumer import OwnedConsumer
from fencepost.model import Batch, TopicPartition

MOST_AHEAD = 4  # batches that are read and not processed yet: so many can be lost by a kill

Batches = deque[Batch[Any]]


class ReadAhead:
    """Batches in the order in which they were read. One commit is under way, for all that waited when it was sent.

    The answers arrive while the consumer is polled, by `answered`.
    """

    def __init__(self, consumer: OwnedConsumer) -> None:
        self._commit = OneCommit(consumer)
        self._new: Batches = deque()
        self._asked: Batches = deque()  # the commit under way covers these
        self._committed: Batches = deque()
        self._failure: FencepostError | None = None

    def __len__(self) -> int:
        return len(self._new) + len(self._asked) + len(self._committed)

    def partitions(self) -> set[TopicPartition]:
        return {
            place for batches in (self._new, self._asked, self._committed) for each in batches for place in each.spans
        }

    def add(self, batch: Batch[Any]) -> None:
        self._new.append(batch)
        self._ask()

    def next_committed(self) -> Batch[Any] | None:
        """The next batch that may be processed. Raises, behind the last of them, why the others' commit failed."""
        if self._committed:
            return self._committed[0]
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        self._ask()
        return None

    def advance(self, batch: Batch[Any]) -> None:
        """The delivery order's `Progress`: the batch is committed, and will not be processed a second time."""
        if not self._committed or self._committed.popleft() is not batch:
            raise AssertionError(f"{batch} is processed before its commit was answered")

    def retreat(self, _batch: Batch[Any]) -> None:
        """Never: what a handler did before it raised is done."""

    def drop(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Forget these partitions' batches, none of which was processed. Returns where to read them again."""
        gone = set(partitions)
        starts: dict[TopicPartition, int] = {}
        for batches in (self._committed, self._asked, self._new):
            for batch in list(batches):
                place, span = batch.only_span()
                if place in gone:
                    starts.setdefault(place, span.start)
                    batches.remove(batch)
        return starts

    def _ask(self) -> None:
        if not self._new or self._commit.under_way or self._failure is not None:
            return
        self._asked, self._new = self._new, deque()
        try:
            ends = {place: span.end for each in self._asked for place, span in each.spans.items()}
            self._commit.send(driver_offsets(ends))
        except FencepostError as failure:
            self._failure = failure

    def answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        failed = self._commit.answered(error, partitions)
        if failed is None:
            self._committed.extend(self._asked)
            self._asked.clear()
        elif self._asked:  # else they were given away meanwhile
            self._failure = commit_failure(failed, "commit")
