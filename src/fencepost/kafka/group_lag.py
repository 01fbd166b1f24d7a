"""How far groups are behind, in records that a reader of committed ones will get, and in time.

Against the last stable offset, not the end: no such reader can be further. Markers and aborted records take offsets and
are not counted; what lies between is read by the headers of its batches, up to a bound, and estimated behind that.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from fencepost.errors import FencepostError
from fencepost.kafka.batch_headers import moment
from fencepost.kafka.layout import leaders, list_offsets
from fencepost.kafka.log_reader import Fetched, fetch
from fencepost.kafka.visibility import Visibility, classify, visible_records
from fencepost.kafka.wire import Wire
from fencepost.model import TopicPartition

HEADER_BYTES = 256 << 10  # of each partition that are looked at
AT_ONCE = 40  # partitions in one look, so that an answer stays small
MOST_KNOWN = 20_000  # counts that are remembered
KNOWN_SECONDS = 60.0


@dataclass(frozen=True)
class Waiting:
    """What lies between a position and the last stable offset."""

    records: int
    exact: bool  # else it was counted in a part, and reckoned for the rest
    oldest: datetime | None  # when the first of them was sent


NOTHING = Waiting(0, exact=True, oldest=None)


@dataclass(frozen=True)
class PartitionLag:
    """One partition of a group."""

    topic: str
    partition: int
    position: int
    first: int | None  # None, as the others: nobody leads the partition, or it is gone
    stable: int | None
    end: int | None
    waiting: Waiting | None

    @property
    def offsets(self) -> int | None:
        """Up to the last stable offset; below zero where the position lies beyond it."""
        return None if self.stable is None else self.stable - self.position

    @property
    def held(self) -> int:
        """Offsets that an open transaction holds back: they are nobody's lag yet."""
        return max(self.end - self.stable, 0) if self.end is not None and self.stable is not None else 0

    @property
    def gone(self) -> int:
        """Offsets that were deleted before they were read."""
        return max(self.first - self.position, 0) if self.first is not None else 0


@dataclass(frozen=True)
class GroupLag:
    """One group in all."""

    group: str
    partitions: Sequence[PartitionLag]

    @property
    def topics(self) -> list[str]:
        return sorted({one.topic for one in self.partitions})

    @property
    def records(self) -> int:
        return sum(one.waiting.records for one in self.partitions if one.waiting)

    @property
    def exact(self) -> bool:
        return all(one.waiting is not None and one.waiting.exact for one in self.partitions)

    @property
    def offsets(self) -> int:
        return sum(max(one.offsets or 0, 0) for one in self.partitions)

    @property
    def oldest(self) -> datetime | None:
        """When the oldest record was sent that it has not read."""
        return min((one.waiting.oldest for one in self.partitions if one.waiting and one.waiting.oldest), default=None)

    @property
    def position(self) -> int:
        return sum(one.position for one in self.partitions)

    @property
    def stable(self) -> int:
        return sum(one.stable or 0 for one in self.partitions)


class Counts:
    """Counts of what lies between two offsets, for a while: a group that rests costs little.

    They change where a topic is created again, or compacted.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[tuple[TopicPartition, int, int], tuple[float, Waiting]] = OrderedDict()
        self._lock = Lock()

    def of(
        self, wire: Wire, wanted: Iterable[tuple[TopicPartition, int, int]]
    ) -> dict[tuple[TopicPartition, int, int], Waiting]:
        """By partition, position and last stable offset."""
        asked, now = set(wanted), self._clock()
        with self._lock:
            known = {one: self._known[one] for one in asked if one in self._known}
        found = {one: waiting for one, (until, waiting) in known.items() if now < until}
        missing = sorted(one for one in asked if one not in found)
        new: dict[tuple[TopicPartition, int, int], Waiting] = {}
        for number in range(0, len(missing), AT_ONCE):
            new |= self._counted(wire, missing[number : number + AT_ONCE])
        with self._lock:
            self._known.update({one: (now + KNOWN_SECONDS, waiting) for one, waiting in new.items()})
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return found | new

    def _counted(
        self, wire: Wire, some: Sequence[tuple[TopicPartition, int, int]]
    ) -> dict[tuple[TopicPartition, int, int], Waiting]:
        """Of several positions in one partition the first is read, and serves for the others."""
        starts: dict[TopicPartition, int] = {}
        for at, position, _ in some:
            starts[at] = min(position, starts.get(at, position))
        seen = fetch(wire, starts, committed=True, most=HEADER_BYTES)
        return {
            (at, position, stable): counted(seen[at], position, stable) for at, position, stable in some if at in seen
        }


def counted(seen: Fetched, position: int, stable: int) -> Waiting:
    """Of what was fetched from this position on, or from before it. Pure."""
    stretches = classify(seen.batches, set(seen.aborted), seen.stable, {})
    upto = min(seen.upto, stable)
    if upto <= position:
        return Waiting(stable - position, exact=False, oldest=None) if stable > position else NOTHING
    records = visible_records(stretches, position, upto)
    first = next(
        (one.batch for one in stretches if one.visibility is Visibility.COMMITTED and one.batch.last >= position), None
    )
    oldest = moment(first.first_ms) if first and records else None
    if upto >= stable:
        return Waiting(records, exact=True, oldest=oldest)
    share = records / (upto - position)
    return Waiting(records + round(share * (stable - upto)), exact=False, oldest=oldest)


def stored_positions(wire: Wire, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
    """What each group has committed; without the groups whose coordinator does not answer."""
    wanted = list(groups)
    try:
        answer = wire.ask(lambda admin: admin.list_group_offsets(wanted), "the groups' offsets") if wanted else {}
    except FencepostError:
        if len(wanted) == 1:
            raise
        return {group: found for one in wanted for group, found in _alone(wire, one).items()}
    return {
        group: {TopicPartition(at.topic, at.partition): one.offset for at, one in found.items() if one.offset >= 0}
        for group, found in answer.items()
    }


def _alone(wire: Wire, group: str) -> dict[str, dict[TopicPartition, int]]:
    try:
        return stored_positions(wire, [group])
    except FencepostError:
        return {}


def group_lags(wire: Wire, counts: Counts, groups: Iterable[str]) -> list[GroupLag]:
    """Every group that has committed something, by name."""
    return lags_of(wire, counts, stored_positions(wire, groups))


def lags_of(wire: Wire, counts: Counts, positions: Mapping[str, Mapping[TopicPartition, int]]) -> list[GroupLag]:
    """The same, of positions wherever they are stored."""
    partitions = {at for found in positions.values() for at in found}
    led = {at: leader for at, leader in leaders(wire, partitions).items() if at in partitions} if partitions else {}
    first, stable = list_offsets(wire, led, first=True), list_offsets(wire, led, stable=True)
    end = list_offsets(wire, led)
    behind = [
        (at, max(position, first.get(at, 0)), stable[at])
        for found in positions.values()
        for at, position in found.items()
        if at in stable and max(position, first.get(at, 0)) < stable[at]
    ]
    waiting = counts.of(wire, behind)

    def of(at: TopicPartition, position: int) -> PartitionLag:
        upto, begin = stable.get(at), max(position, first.get(at, 0))  # what is gone nobody will read
        known = None if upto is None else waiting.get((at, begin, upto), None if begin < upto else NOTHING)
        return PartitionLag(at.topic, at.partition, position, first.get(at), upto, end.get(at), known)

    return [
        GroupLag(group, [of(at, position) for at, position in sorted(found.items())])
        for group, found in sorted(positions.items())
    ]
