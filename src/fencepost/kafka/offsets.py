"""Positions against what topics hold now: where to start, what is gone, and whether they are still the same topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from fencepost.errors import PositionLost, RecordsGone, TopicRecreated, Unreachable, Usage
from fencepost.fence import read_new_topic
from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import offsets_at, topic_id_and_partitions
from fencepost.model import Span, TopicPartition

Offsets = Mapping[int, int] | Mapping[str, Mapping[int, int]]  # by partition of the only topic, or by topic first
Start = str | datetime | Offsets


class TopicReader:
    """The topics that a pipeline reads. Remembers their ids from when it was opened."""

    def __init__(self, cluster: Cluster, *topics: str) -> None:
        """Raises Usage where one of them does not exist."""
        self._cluster = cluster
        self.topic_ids = {topic: topic_id_and_partitions(cluster, topic)[0] for topic in topics}

    def positions(
        self, stored: Mapping[TopicPartition, int], start: Start, skip_gone: bool = False
    ) -> dict[TopicPartition, int]:
        """Every partition with its stored position, or with the one to start at.

        A partition that appears when others of its topic have positions starts at its first record, whatever `start`
        says. What is stored for topics that are not read (any more) is left alone. Raises RecordsGone where a position
        is stored that the topic holds no more, unless such records are to be skipped.
        """
        partitions = self.require_same(stored)
        first, end = self.bounds(partitions)
        read = {at: position for at, position in stored.items() if at.topic in self.topic_ids}
        _require_there(read, end)
        if not skip_gone:
            _require_readable(read, first)
        known = {partition.topic for partition in stored}
        new = [partition for partition in partitions if partition.topic not in known]
        return {**first, **self._starts(start, new, first, end), **_only(stored, first)}

    def gone(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, Span]:
        """What lies between a position and the first record that there is."""
        first, _ = self.bounds(list(positions))
        return {at: Span(position, first[at]) for at, position in positions.items() if position < first[at]}

    def bounds(self, partitions: list[TopicPartition]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The first offset and the end of each partition. Raises Unreachable while one has no leader."""
        first = offsets_at(self._cluster, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        return _all_led(partitions, first), _all_led(partitions, self.ends(partitions))

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return offsets_at(self._cluster, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def stable_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where readers of committed records come to the end. Raises Unreachable while a partition has no leader."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        found = offsets_at(self._cluster, partitions, latest, IsolationLevel.READ_COMMITTED)
        return _all_led(partitions, found)

    def require_same(self, seen: Iterable[TopicPartition] = ()) -> list[TopicPartition]:
        """The topics' partitions. Raises TopicRecreated when one was deleted and created again since it was opened.

        `seen`: partitions that there have been. Of those that some broker still knows none is missing.
        """
        known = list(seen)
        return [partition for topic in self.topic_ids for partition in self._partitions(topic, known)]

    def _partitions(self, topic: str, known: Collection[TopicPartition]) -> list[TopicPartition]:
        most = max((at.partition + 1 for at in known if at.topic == topic), default=1)
        now, partitions = topic_id_and_partitions(self._cluster, topic, most)
        if now != self.topic_ids[topic]:
            raise TopicRecreated(
                f"topic {topic!r} was deleted and created again while it was read",
                read_new_topic(topic),
            )
        return [TopicPartition(topic, partition) for partition in partitions]

    def _starts(
        self,
        start: Start,
        new: Collection[TopicPartition],
        first: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Where partitions of topics begin that have not been read yet."""
        if isinstance(start, datetime):
            spec = OffsetSpec.for_timestamp(int(start.timestamp() * 1000))
            found = _all_led(new, offsets_at(self._cluster, new, spec))
            return {partition: offset if offset >= 0 else end[partition] for partition, offset in found.items()}
        if isinstance(start, Mapping):
            read = {partition.topic for partition in first} - {partition.topic for partition in new}
            named = by_place(start, list(self.topic_ids)).items()
            offsets = {at: offset for at, offset in named if at.topic not in read}
            return require_held(offsets, first, end, "source.start")
        return _only(end if start == "latest" else first, new)


def by_place(offsets: Offsets, topics: Sequence[str]) -> dict[TopicPartition, int]:
    """Raises Usage for offsets without a topic where there are several."""
    places: dict[TopicPartition, int] = {}
    for name, given in offsets.items():
        if isinstance(given, Mapping):
            places |= {TopicPartition(str(name), partition): offset for partition, offset in given.items()}
        elif len(topics) == 1:
            places[TopicPartition(topics[0], int(name))] = given
        else:
            raise Usage(f"offset {given} of partition {name}: which topic?", f"say which of {', '.join(topics)}")
    return places


def _only(offsets: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    return {partition: offset for partition, offset in offsets.items() if partition in partitions}


def _all_led(partitions: Iterable[TopicPartition], offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offsets, where every partition has one; Unreachable where a leader is missing."""
    for partition in partitions:
        if partition not in offsets:
            raise Unreachable(f"{partition} has no leader", "check which broker is missing")
    return offsets


def require_held(
    named: dict[TopicPartition, int],
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    where: str,
) -> dict[TopicPartition, int]:
    """Offsets by partition, as they are. Raises Usage for one that its partition does not hold."""
    for partition, offset in named.items():
        if partition not in first:
            raise Usage(f"{where} names {partition}, which does not exist", "name partitions that are read")
        if not first[partition] <= offset <= end[partition]:
            raise Usage(
                f"{where}: {partition} holds the offsets {first[partition]} to {end[partition]}, not {offset}",
                "name one of these, or earliest or latest",
            )
    return named


def set_command(positions: Mapping[TopicPartition, int]) -> str:
    """The command that puts these partitions there, and leaves the others where they are; one for each topic."""
    commands = []
    for topic in sorted({at.topic for at in positions}):
        offsets = ",".join(f"{at.partition}:{to}" for at, to in sorted(positions.items()) if at.topic == topic)
        commands.append(f"fencepost positions set --topic {topic} --to {offsets}")
    return " and ".join(commands)


def _require_there(stored: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
    for at, position in sorted(stored.items()):
        if at not in end:
            raise PositionLost(
                f"{at} has a stored position ({position}) but no longer exists: the topic was created again",
                read_new_topic(at.topic),
            )
    if lost := {at: position for at, position in stored.items() if position > end[at]}:
        raise PositionLost(*beyond_the_end(lost, end))


def _require_readable(stored: Mapping[TopicPartition, int], first: Mapping[TopicPartition, int]) -> None:
    if gone := {at: position for at, position in stored.items() if position < first[at]}:
        raise RecordsGone(*before_the_start(gone, first))


Command = Callable[[Mapping[TopicPartition, int]], str]  # what puts positions there


def beyond_the_end(
    stored: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], command: Command = set_command
) -> tuple[str, str]:
    """What to say, and to do, of positions that lie behind what their partitions hold."""
    where = "; ".join(
        f"{at}: the stored position is {position}, and the topic ends at {end[at]}"
        for at, position in sorted(stored.items())
    )
    remedy = (
        f"check what happened to the topic: if it lost its tail and was written to since, records before its end "
        f"are new, and continuing at the end skips them. To do that: {command({at: end[at] for at in stored})}"
    )
    return f"{where}: records that were already read are gone from it", remedy


def before_the_start(
    stored: Mapping[TopicPartition, int], first: Mapping[TopicPartition, int], command: Command = set_command
) -> tuple[str, str]:
    """What to say, and to do, of positions whose records do not exist any more."""
    where = "; ".join(
        f"{at}: the records from {position} to {first[at] - 1} were deleted before they were read"
        for at, position in sorted(stored.items())
    )
    remedy = f"to skip them: {command({at: first[at] for at in stored})}; and give the topic a longer retention"
    return f"{where}, by retention or by deletion", remedy
