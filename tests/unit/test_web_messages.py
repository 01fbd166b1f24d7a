"""The order in which messages of several partitions are listed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.messages import LogEntry
from fencepost.kafka.visibility import Visibility
from fencepost.model import TopicPartition
from fencepost.web.pages.messages import in_order

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def entry(partition: int, offset: int, second: int | None) -> LogEntry:
    when = None if second is None else BEGAN + timedelta(seconds=second)
    return LogEntry(TopicPartition("t", partition), offset, Visibility.COMMITTED, False, cast("Any", None), when)


def places(entries: list[LogEntry]) -> list[tuple[int, int]]:
    return [(one.partition.partition, one.offset) for one in entries]


def test_a_marker_stays_before_the_records_behind_it_though_it_was_written_after_them() -> None:
    marker, later, elsewhere = entry(0, 33, 9), entry(0, 34, 5), entry(1, 7, 6)
    assert places(in_order([later, elsewhere, marker])) == [(1, 7), (0, 33), (0, 34)]


@given(st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 20)), st.none() | st.integers(0, 50)))
def test_offsets_rise_in_each_partition_and_nothing_is_left_out(times: dict[tuple[int, int], int | None]) -> None:
    ordered = places(in_order([entry(*at, second) for at, second in times.items()]))
    assert sorted(ordered) == sorted(times)
    for partition in range(3):
        offsets = [offset for at, offset in ordered if at == partition]
        assert offsets == sorted(offsets)


def test_several_partitions_are_told_by_time() -> None:
    assert places(in_order([entry(0, 1, 3), entry(1, 1, 1), entry(0, 0, 0), entry(1, 2, 4)])) == [
        (0, 0),
        (1, 1),
        (0, 1),
        (1, 2),
    ]
