"""The same ledger for a sink that keeps no positions itself, and takes batches of several partitions.

Each partition has its own fence, so each moves in its own transaction, all at once. Where one does not, the others are
put back. Where that fails too, some have moved and some have not: then the run goes on from what is stored of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from fencepost import fence
from fencepost.errors import Fenced, FencepostError, Rewound, Unknown
from fencepost.fence import Stored
from fencepost.model import Batch, TopicPartition
from fencepost.sinks.kafka.ledger import Held
from fencepost.sinks.kafka.settings import KafkaSettings
from fencepost.sinks.kafka.store import KafkaStore, KafkaTransaction

_AT_ONCE = 8  # partitions


class GroupLedger(KafkaStore):
    """Positions of one pipeline, in its consumer group. One thread at a time."""

    def __init__(self, kafka: Mapping[str, str], pipeline: str, prefix: str = "") -> None:
        no_target = ("",)  # a producer that only stores offsets writes to no topic
        super().__init__(KafkaSettings(kafka, pipeline, no_target, prefix), reuse=False)

    def done(self, batch: Batch[Any]) -> bool:
        return self._landed(batch)

    def advance(self, batch: Batch[Any]) -> None:
        if self._landed(batch) and any(span.start < span.end for span in batch.spans.values()):
            raise Fenced(f"{batch}: the stored positions are already at its end")
        self._move_all(batch, super().advance, super().retreat)

    def retreat(self, batch: Batch[Any]) -> None:
        if not self._landed(batch):
            raise Fenced(f"{batch}: the stored positions are already at its start")
        self._move_all(batch, super().retreat, super().advance)

    @contextmanager
    def transaction(self, batch: Batch[Any]) -> Iterator[KafkaTransaction]:
        """There is none."""
        yield self._refused(batch)

    def _refused(self, batch: Batch[Any]) -> KafkaTransaction:
        raise TypeError(f"{batch}: rows and positions cannot move together here; the rules refuse this earlier")

    def _landed(self, batch: Batch[Any]) -> bool:
        held = self._now(batch)
        try:
            return fence.landed(held, batch)
        except Rewound:
            raise
        except Fenced as fenced:
            if not _halfway(held, batch):
                raise
            raise Rewound(f"{fenced.message}: some have moved and some have not; what is between may be lost") from None

    def _now(self, batch: Batch[Any]) -> Held:
        """What is stored of each; where a transaction is open or in doubt, taking its id decides it."""
        parts = _parts(batch)
        producers = [self._producer(part) for part in parts]
        for producer in producers:
            self._spare(producer)
        if not any(producer.in_doubt for producer in producers):
            found = self._group(batch.tenure.pipeline).glance(batch.spans)
            if found is not None:
                return found
        return {at: held for part in parts for at, held in self._held(part).items()}

    def _move_all(
        self, batch: Batch[Any], move: Callable[[Batch[Any]], None], undo: Callable[[Batch[Any]], None]
    ) -> None:
        """All of them, or none where that is in our power. Raises Unknown where it is not, or is not known."""
        parts = _parts(batch)
        for part in parts:
            self._producer(part)  # threads find it there
        failed = _each(move, parts)
        if not failed:
            return
        moved = [part for part in parts if part.only_span()[0] not in failed]
        left = _each(undo, moved)
        worst = next((one for one in failed.values() if isinstance(one, Unknown)), next(iter(failed.values())))
        if left and not isinstance(worst, Unknown):
            raise Unknown(
                f"{worst.message}; the positions of {', '.join(map(str, sorted(left)))} have moved"
            ) from worst
        raise worst


def _parts(batch: Batch[Any]) -> list[Batch[Any]]:
    return [Batch({at: span}, (), batch.tenure) for at, span in batch.spans.items()]


def _each(act: Callable[[Batch[Any]], None], parts: Iterable[Batch[Any]]) -> dict[TopicPartition, FencepostError]:
    """What went wrong, by partition."""

    def tried(part: Batch[Any]) -> FencepostError | None:
        try:
            act(part)
        except FencepostError as error:
            return error
        return None

    listed = list(parts)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        outcomes = zip(listed, pool.map(tried, listed), strict=True)
        return {part.only_span()[0]: error for part, error in outcomes if error is not None}


def _halfway(held: Stored, batch: Batch[Any]) -> bool:
    """Is each position ours, and either at the batch's start or at its end?"""
    return all(
        at in held and held[at].owner == batch.tenure.token and held[at].position in (span.start, span.end)
        for at, span in batch.spans.items()
    )
