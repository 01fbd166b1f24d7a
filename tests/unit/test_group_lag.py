"""Lag in records: what a reader of committed ones will get, however many markers lie between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from fencepost.kafka.batch_headers import BatchHeader, Marker
from fencepost.kafka.group_lag import KNOWN_SECONDS, Counts, GroupLag, PartitionLag, Waiting, counted
from fencepost.kafka.log_reader import Fetched
from fencepost.kafka.visibility import Aborted
from fencepost.kafka.wire import Wire
from fencepost.model import TopicPartition


def batch(first: int, many: int, producer: int = -1, marker: Marker | None = None) -> BatchHeader:
    return BatchHeader(first, first + many - 1, many, producer, 0, 0, producer >= 0, marker, first * 1_000, 0, 80)


def fetched(*batches: BatchHeader, aborted: tuple[Aborted, ...] = (), stable: int = 0) -> Fetched:
    return Fetched(batches, aborted, 0, stable or batches[-1].last + 1, 1_000)


def test_markers_and_aborted_records_are_no_lag() -> None:
    log = fetched(batch(0, 3, 1), batch(3, 1, 1, Marker.COMMIT), batch(4, 2, 1), batch(6, 1, 1, Marker.ABORT),
                  aborted=(Aborted(1, 4),))  # fmt: skip
    assert counted(log, 0, 7) == Waiting(3, exact=True, oldest=datetime.fromtimestamp(0, UTC))
    assert counted(log, 3, 7) == Waiting(0, exact=True, oldest=None)


def test_from_the_middle_of_a_batch() -> None:
    assert counted(fetched(batch(0, 10)), 4, 10).records == 6


def test_what_was_not_fetched_is_reckoned() -> None:
    half_markers = fetched(batch(0, 1, 1), batch(1, 1, 1, Marker.COMMIT), stable=1_000)
    assert counted(half_markers, 0, 1_000) == Waiting(500, exact=False, oldest=datetime.fromtimestamp(0, UTC))
    nothing = Fetched((), (), 0, 10, 10)
    assert counted(nothing, 4, 10) == Waiting(6, exact=False, oldest=None)


def test_an_open_transaction_is_nobodys_lag() -> None:
    one = PartitionLag("t", 0, position=10, first=0, stable=10, end=99, waiting=Waiting(0, exact=True, oldest=None))
    assert (one.offsets, one.held, one.gone) == (0, 89, 0)
    assert GroupLag("g", [one]).records == 0


def test_records_that_went_unread_and_positions_beyond_the_end() -> None:
    assert PartitionLag("t", 0, 3, 10, 20, 20, None).gone == 7
    assert PartitionLag("t", 0, 30, 10, 20, 20, None).offsets == -10
    assert not GroupLag("g", [PartitionLag("t", 0, 3, None, None, None, None)]).exact


def test_a_time_that_no_calendar_has_is_none() -> None:
    far = replace(batch(0, 3), first_ms=2**62)
    assert counted(fetched(far), 0, 3) == Waiting(3, exact=True, oldest=None)


class Growing(Counts):
    """Each count is one more than the last."""

    asked = 0

    def _counted(self, wire: Wire, some: Sequence[tuple[TopicPartition, int, int]]) -> dict[Any, Waiting]:
        self.asked += 1
        return {one: Waiting(self.asked, exact=True, oldest=None) for one in some}


def test_a_count_is_remembered_for_a_while_and_no_longer() -> None:
    now, place = [0.0], (TopicPartition("t", 0), 0, 11)
    counts, wire = Growing(lambda: now[0]), cast(Wire, None)
    assert counts.of(wire, [place])[place].records == 1
    now[0] = KNOWN_SECONDS - 1
    assert counts.of(wire, [place])[place].records == 1
    now[0] = KNOWN_SECONDS  # the topic may have been created again meanwhile
    assert counts.of(wire, [place])[place].records == 2
