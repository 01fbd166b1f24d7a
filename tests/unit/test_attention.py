"""What needs somebody first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fencepost.admin.attention import Level, of_layout, of_pipeline, of_transactions, worst_first
from fencepost.kafka.group_lag import GroupLag, PartitionLag
from fencepost.kafka.layout import BrokerState, Layout, PartitionLayout, TopicLayout, Voter
from fencepost.kafka.open_transactions import OpenProducer, TransactionDescription
from fencepost.model import TopicPartition

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def topic(name: str, *in_sync: int, leader: int | None = 1) -> TopicLayout:
    parts = (PartitionLayout(0, leader, (1, 2, 3), in_sync),)
    return TopicLayout(name, "", False, parts, 2)


def broker(id_: int, leaders: int = 1, skew: float | None = 1.0, *, up: bool = True) -> BrokerState:
    return BrokerState(id_, "h", 1, None, up, leaders, 3, 0, skew)


def said(layout: Layout) -> list[tuple[Level, str]]:
    return [(one.level, one.what) for one in worst_first(of_layout(layout, NOW))]


def test_a_cluster_that_is_well_says_nothing() -> None:
    assert said(Layout("c", (broker(1), broker(2)), {"t": topic("t", 1, 2, 3)}, (Voter(9, True, 0, NOW),))) == []


def test_the_worst_comes_first_and_each_topic_once() -> None:
    topics = {
        one.topic: one
        for one in (topic("under", 1, 2), topic("gone", 1, leader=None), topic("min", 1), topic("well", 1, 2, 3))
    }
    layout = Layout("c", (broker(1), broker(2, up=False), broker(3, 40, 3.0)), topics, ())
    assert said(layout) == [
        (Level.BAD, "broker 2 is down"),
        (Level.BAD, "gone: 1 partition offline"),
        (Level.BAD, "min: 1 partition under the minimum"),
        (Level.WARN, "under: 1 partition under-replicated"),
        (Level.WARN, "broker 3 has more than its share"),
    ]


def test_controllers_that_are_not_heard_of() -> None:
    late = Voter(2, False, 5, NOW - timedelta(minutes=2))
    assert said(Layout("c", (), {}, (Voter(1, True, 0, None), late))) == [(Level.BAD, "controller 2 is behind")]


def test_transactions_that_hang_or_are_overdue() -> None:
    at = TopicPartition("t", 3)
    hanging = OpenProducer(at, 7, 0, 42, NOW)
    late = TransactionDescription("id", "Ongoing", 8, 0, 1, 60_000, NOW - timedelta(minutes=2), (at,))
    fine = TransactionDescription("ok", "Ongoing", 9, 0, 1, 600_000, NOW - timedelta(minutes=2), (at,))
    found = list(of_transactions([late, fine], [hanging], NOW))
    assert [one.what for one in found] == ["a transaction hangs in t/3", "transaction id is overdue"]


def test_pipelines_whose_records_are_gone_or_whose_audit_is_broken() -> None:
    lag = GroupLag("g", [PartitionLag("t", 0, 3, 10, 20, 20, None), PartitionLag("t", 1, 30, 0, 20, 20, None)])
    assert [one.what for one in of_pipeline("p", lag, "broken")] == [
        "pipeline p: its last audit is broken",
        "pipeline p cannot go on",
        "pipeline p is beyond the end",
    ]
    assert list(of_pipeline("p", None, "holds")) == []
