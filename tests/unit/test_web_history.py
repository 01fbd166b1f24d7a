"""Lag over time, and what follows from it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fencepost.errors import Usage
from fencepost.kafka.group_lag import GroupLag, PartitionLag, Waiting
from fencepost.web.history import KEPT_SECONDS, POINTS, History, Pace
from fencepost.web.pages.groups import lag_facts


def group(position: int, stable: int, name: str = "g", partitions: int = 1) -> GroupLag:
    waiting = Waiting(stable - position, exact=True, oldest=None)
    return GroupLag(name, [PartitionLag("t", n, position, 0, stable, stable, waiting) for n in range(partitions)])


def test_a_group_over_time_is_thinned_and_forgotten(tmp_path: Path) -> None:
    history = History(tmp_path / "deep" / "history.sqlite")
    for second in range(0, 2_000, 2):
        history.add("c", [group(second, 2_000)], now=float(second))
    points = history.of("c", "g", 2_000, now=2_000.0)
    assert POINTS - 50 < len(points) <= POINTS + 1
    assert points[-1].records == 2
    assert history.of("other", "g", 2_000, now=2_000.0) == []
    history.add("c", [], now=KEPT_SECONDS + 1_000.0)
    assert len(history.of("c", "g", 1e9, now=KEPT_SECONDS + 1_000.0)) <= POINTS
    history.close()


@pytest.mark.parametrize(("sent", "seconds"), [(None, 0.0), (40.0, 60.0), (3_700.0, 0.0)])
def test_nobody_is_behind_by_less_than_nothing_where_a_producers_clock_is_ahead(
    sent: float | None, seconds: float
) -> None:
    oldest = datetime.fromtimestamp(sent, UTC) if sent else None
    lag = GroupLag("g", [PartitionLag("t", 0, 1, 0, 2, 2, Waiting(1, exact=True, oldest=oldest))])
    history = History(None)
    history.add("c", [lag], now=100.0)
    assert [point.seconds for point in history.of("c", "g", 10, now=100.0)] == [seconds]


def test_lag_facts_say_the_same_of_a_clock_that_is_ahead() -> None:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    lag = GroupLag("g", [PartitionLag("t", 0, 1, 0, 2, 2, Waiting(1, exact=True, oldest=ahead))])
    assert lag_facts(lag)["lag_seconds"] == 0.0


def test_two_servers_share_a_file(tmp_path: Path) -> None:
    one, other = History(tmp_path / "h"), History(tmp_path / "h")
    one.add("c", [group(1, 2)], now=1.0)
    other.add("c", [group(2, 2)], now=2.0)
    assert [point.records for point in one.of("c", "g", 10, now=3.0)] == [1, 0]
    one.close()
    other.close()


def test_the_pace_and_when_it_catches_up() -> None:
    history = History(None)
    for second in range(11):
        history.add("c", [group(100 * second, 10_000 + 50 * second)], now=float(second))
    pace = history.pace("c", "g", now=11.0)
    assert pace == Pace(reads=100.0, grows=50.0)
    assert pace.catches_up(9_500) == 190.0
    assert pace.catches_up(0) == 0.0
    assert Pace(50.0, 50.0).catches_up(10) is None
    assert Pace(0.0, 0.0).catches_up(10) is None


def test_nothing_is_said_of_positions_that_were_set_or_of_partitions_that_came() -> None:
    history = History(None)
    history.add("c", [group(500, 1_000)], now=0.0)
    history.add("c", [group(100, 1_000)], now=10.0)
    assert history.pace("c", "g", now=10.0) is None
    history.add("c", [group(100, 1_000, partitions=2)], now=20.0)
    assert history.pace("c", "g", now=20.0) is None


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Usage, match="history"):
        History(tmp_path / "file" / "history.sqlite")
