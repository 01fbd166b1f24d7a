"""Lag in records: what a reader of committed ones will get, however many markers lie between."""

from __future__ import annotations

from datetime import UTC, datetime

from fencepost.kafka.batch_headers import BatchHeader, Marker
from fencepost.kafka.group_lag import GroupLag, PartitionLag, Waiting, counted
from fencepost.kafka.log_reader import Fetched
from fencepost.kafka.visibility import Aborted


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
