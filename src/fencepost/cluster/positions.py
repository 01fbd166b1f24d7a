"""Positions against what a topic holds now: where to start, what is gone, and whether it is still the same topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from fencepost.cluster.client import Cluster
from fencepost.cluster.topics import offsets_at, topic_id_and_partitions
from fencepost.errors import PositionLost, RecordsGone, TopicRecreated, Unreachable, Usage
from fencepost.model import Span, TopicPartition

Start = str | datetime | Mapping[int, int]


class TopicReader:
    """One topic as a pipeline reads it. Remembers the topic's id from when it was opened."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        """Raises Usage where there is no such topic."""
        self._cluster = cluster
        self.topic = topic
        self.topic_id, _ = topic_id_and_partitions(cluster, topic)

    def positions(
        self, stored: Mapping[TopicPartition, int], start: Start, skip_gone: bool = False
    ) -> dict[TopicPartition, int]:
        """Every partition with its stored position, or with the one to start at.

        A partition that appears when others have positions starts at its first record, whatever `start` says.
        Raises RecordsGone where one is stored that the topic holds no more, unless they are to be skipped.
        """
        partitions = self.require_same()
        first, end = self.bounds(partitions)
        for partition, position in stored.items():
            _require_there(partition, position, first.get(partition), end.get(partition))
            if not skip_gone:
                _require_readable(partition, position, first[partition])
        starts = first if stored else self._starts(start, first, end)
        return {partition: stored.get(partition, starts[partition]) for partition in partitions}

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

    def require_same(self) -> list[TopicPartition]:
        """The topic's partitions. Raises TopicRecreated when it was deleted and made anew since it was opened."""
        now, partitions = topic_id_and_partitions(self._cluster, self.topic)
        if now != self.topic_id:
            raise TopicRecreated(
                f"topic {self.topic!r} was deleted and made anew while it was read",
                f"to read the new one from its start: fencepost positions set --topic {self.topic} --to earliest",
            )
        return [TopicPartition(self.topic, partition) for partition in partitions]

    def _starts(
        self, start: Start, first: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if isinstance(start, datetime):
            spec = OffsetSpec.for_timestamp(int(start.timestamp() * 1000))
            found = _all_led(first, offsets_at(self._cluster, first, spec))
            return {partition: offset if offset >= 0 else end[partition] for partition, offset in found.items()}
        if isinstance(start, Mapping):
            return _explicit(self.topic, start, first, end)
        return dict(end if start == "latest" else first)


def _all_led(partitions: Iterable[TopicPartition], offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offsets, where every partition has one; Unreachable where a leader is missing."""
    for partition in partitions:
        if partition not in offsets:
            raise Unreachable(f"{partition} has no leader now", "see which broker is missing")
    return offsets


def _explicit(
    topic: str,
    start: Mapping[int, int],
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Offsets by partition; those that are not named start at their first record."""
    for number, offset in start.items():
        partition = TopicPartition(topic, number)
        if partition not in first:
            raise Usage(f"source.start names partition {number}, which topic {topic!r} does not have")
        if not first[partition] <= offset <= end[partition]:
            raise Usage(
                f"source.start: {partition} holds the offsets {first[partition]} to {end[partition]}, not {offset}",
                "name one of these, or earliest or latest",
            )
    return {partition: start.get(partition.partition, offset) for partition, offset in first.items()}


def _require_there(partition: TopicPartition, position: int, first: int | None, end: int | None) -> None:
    if first is None or end is None:
        raise PositionLost(
            f"{partition} has a stored position ({position}) and does not exist in the topic any more",
            f"if its records are not wanted: fencepost positions set --topic {partition.topic} --to earliest",
        )
    if position > end:
        raise PositionLost(
            f"{partition}: the stored position is {position}, and the topic ends at {end}: records that were read "
            "are gone from it",
            "see what happened to the topic; to go on from its end: fencepost positions set --to latest",
        )


def _require_readable(partition: TopicPartition, position: int, first: int) -> None:
    if position < first:
        raise RecordsGone(
            f"{partition}: the records from {position} to {first - 1} were never read and are gone, by retention or "
            "by deletion",
            "to go on without them: fencepost positions set --to earliest; and give the topic a longer retention",
        )
