"""Which records a reader of committed ones sees, and why not the others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fencepost.kafka.batch_headers import BatchHeader, Marker


class Visibility(StrEnum):
    COMMITTED = "committed"  # by itself, or by its transaction
    ABORTED = "aborted"  # its transaction was given up: it stays in the log, and no such reader sees it
    OPEN = "open"  # its transaction goes on
    CONTROL = "control"  # no record: the marker that ends a transaction
    UNKNOWN = "unknown"  # its transaction is over, and its marker lies beyond what was read


@dataclass(frozen=True)
class Aborted:
    """A transaction that a broker names as aborted, in what was fetched."""

    producer_id: int
    first: int


@dataclass(frozen=True)
class Stretch:
    """The offsets of one batch, and what holds for all of them."""

    batch: BatchHeader
    visibility: Visibility
    held: bool  # committed, but behind an open transaction: such readers wait before it

    def __contains__(self, offset: object) -> bool:
        return isinstance(offset, int) and self.batch.first <= offset <= self.batch.last


def classify(
    batches: Sequence[BatchHeader],
    aborted: Iterable[Aborted],
    stable: int,
    open_: Mapping[int, int],
    ahead: Sequence[BatchHeader] = (),
) -> list[Stretch]:
    """Of batches in their order. `aborted`: as fetched with them; `stable`: the last stable offset.

    `open_`: where the transaction of each producer began that is inside one; `ahead`: batches that follow, in which the
    markers of these may be.
    """
    waiting = sorted(aborted, key=lambda one: one.first, reverse=True)
    given_up: set[int] = set()
    found = []
    for number, batch in enumerate(batches):
        while waiting and waiting[-1].first <= batch.last:
            given_up.add(waiting.pop().producer_id)
        if batch.marker is not None:
            seen = Visibility.CONTROL
            given_up -= {batch.producer_id} if batch.marker is Marker.ABORT else set()
        elif not batch.transactional:
            seen = Visibility.COMMITTED
        elif batch.first < stable:
            seen = Visibility.ABORTED if batch.producer_id in given_up else Visibility.COMMITTED
        else:
            seen = _beyond(batch, open_, [*batches[number + 1 :], *ahead])
        found.append(Stretch(batch, seen, seen is Visibility.COMMITTED and batch.last >= stable))
    return found


def _beyond(batch: BatchHeader, open_: Mapping[int, int], following: Iterable[BatchHeader]) -> Visibility:
    """Behind the last stable offset no broker names the aborted ones: the next marker of the producer tells."""
    for one in following:
        if one.marker is not None and one.producer_id == batch.producer_id:
            return Visibility.ABORTED if one.marker is Marker.ABORT else Visibility.COMMITTED
    if open_.get(batch.producer_id, batch.first + 1) <= batch.first:
        return Visibility.OPEN
    return Visibility.UNKNOWN


def visible_records(stretches: Iterable[Stretch], start: int, end: int) -> int:
    """How many records in [start, end) such a reader gets, or will get: markers and aborted ones are none.

    Of a batch that begins before `start`, or goes on behind `end`, as many as its offsets say.
    """
    return sum(
        _inside(one.batch, start, end)
        for one in stretches
        if one.visibility in (Visibility.COMMITTED, Visibility.OPEN, Visibility.UNKNOWN)
    )


def _inside(batch: BatchHeader, start: int, end: int) -> int:
    if start <= batch.first and batch.last < end:
        return batch.records
    return min(batch.records, max(min(batch.last + 1, end) - max(batch.first, start), 0))
