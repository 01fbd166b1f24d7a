"""What is refused, why, and what can be had instead."""

from __future__ import annotations

import pytest

from fencepost.errors import UnsupportedGuarantee, Usage
from fencepost.guarantee import ALLOWED, Anomaly, Guarantee, nearest
from fencepost.model import Merge, Mode
from fencepost.rules.findings import Hop, broken, require
from fencepost.rules.reader import reader_findings
from fencepost.rules.sinks import Capabilities, WritePath, choose_path, merge_findings, require_key, sink_findings
from fencepost.rules.topics import TopicFacts, loop_findings, topic_findings

POSTGRES = Capabilities("postgres", frozenset({WritePath.DIRECT, WritePath.STAGED}), atomic=True)
DELTA = Capabilities("delta", frozenset({WritePath.WHOLE}), atomic=True)
PARQUET = Capabilities("parquet", frozenset({WritePath.STAGED}), atomic=False)
TERMINAL = Capabilities("terminal", frozenset({WritePath.DIRECT}), atomic=False, durable=False)
SAFE_TOPIC = TopicFacts("orders", replication_factor=3, min_insync_replicas=2)


@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_sink_that_keeps_positions_can_give_every_word(guarantee: Guarantee) -> None:
    assert broken(guarantee, sink_findings(POSTGRES)) == []
    require(guarantee, sink_findings(POSTGRES))


def test_exactly_once_into_a_sink_without_positions_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnsupportedGuarantee) as refused:
        require(Guarantee.EXACTLY_ONCE, sink_findings(PARQUET))
    assert refused.value.nearest is Guarantee.AT_LEAST_ONCE
    assert "parquet" in str(refused.value)
    assert "at-least-once is possible here" in str(refused.value)
    require(Guarantee.AT_LEAST_ONCE, sink_findings(PARQUET))


def test_the_worst_hop_decides_what_can_be_had() -> None:
    lone = TopicFacts("orders", replication_factor=1, min_insync_replicas=1)
    with pytest.raises(UnsupportedGuarantee) as refused:
        require(Guarantee.EXACTLY_ONCE, [*sink_findings(PARQUET), *topic_findings(lone)])
    assert refused.value.nearest is Guarantee.AT_MOST_ONCE
    assert "single broker" in refused.value.reason


def test_a_sink_that_forgets_can_only_be_at_most_once() -> None:
    with pytest.raises(UnsupportedGuarantee) as refused:
        require(Guarantee.AT_LEAST_ONCE, sink_findings(TERMINAL))
    assert refused.value.nearest is Guarantee.AT_MOST_ONCE


def test_a_safe_topic_limits_nothing() -> None:
    assert list(topic_findings(SAFE_TOPIC)) == []


@pytest.mark.parametrize(
    ("replication", "min_insync", "unclean", "nearest_word"),
    [
        (1, 1, False, Guarantee.AT_MOST_ONCE),
        (3, 1, False, Guarantee.AT_MOST_ONCE),
        (3, 2, True, Guarantee.AT_MOST_ONCE),
        (2, 3, False, None),
    ],
)
def test_a_topic_that_can_lose_acknowledged_records_is_refused(
    replication: int, min_insync: int, unclean: bool, nearest_word: Guarantee | None
) -> None:
    facts = TopicFacts("orders", replication, min_insync, unclean)
    with pytest.raises(UnsupportedGuarantee) as refused:
        require(Guarantee.AT_LEAST_ONCE, topic_findings(facts))
    assert refused.value.nearest == nearest_word
    assert refused.value.remedy


def test_the_face_follows_the_plan_and_the_sink() -> None:
    assert choose_path(POSTGRES, wide_node=None) is WritePath.DIRECT
    assert choose_path(POSTGRES, wide_node="Exchange") is WritePath.STAGED
    assert choose_path(PARQUET, wide_node=None) is WritePath.STAGED
    assert [choose_path(DELTA, node) for node in (None, "Exchange")] == [WritePath.WHOLE] * 2
    with pytest.raises(Usage, match="Exchange"):
        choose_path(TERMINAL, wide_node="Exchange")


def test_every_anomaly_has_a_ruling_under_every_word() -> None:
    assert set(ALLOWED) == set(Anomaly)
    assert all(rule.reason for rule in ALLOWED.values())


def test_the_nearest_word_prefers_what_was_asked_then_losing_nothing() -> None:
    both = frozenset({Guarantee.AT_MOST_ONCE, Guarantee.AT_LEAST_ONCE})
    assert nearest(Guarantee.EXACTLY_ONCE, both) is Guarantee.AT_LEAST_ONCE
    assert nearest(Guarantee.AT_MOST_ONCE, both) is Guarantee.AT_MOST_ONCE
    assert nearest(Guarantee.AT_MOST_ONCE, frozenset({Guarantee.EXACTLY_ONCE})) is Guarantee.EXACTLY_ONCE
    assert nearest(Guarantee.EXACTLY_ONCE, frozenset()) is None


UPSERT = Merge(Mode.UPSERT, ("id",))
DELETING = Merge(Mode.UPSERT, ("id",), deletes=True)
WEAKER = [Guarantee.AT_MOST_ONCE, Guarantee.AT_LEAST_ONCE]


@pytest.mark.parametrize("guarantee", Guarantee)
@pytest.mark.parametrize(
    ("merge", "provenance"),
    [
        (None, False),
        (UPSERT, True),
        (Merge(Mode.UPSERT, ("id",), order_by="at"), False),
        (Merge(Mode.DEDUPE, ("id",)), False),
    ],
)
def test_a_merge_that_can_tell_older_from_newer_holds_under_every_word(
    merge: Merge | None, provenance: bool, guarantee: Guarantee
) -> None:
    assert broken(guarantee, merge_findings(merge, provenance)) == []
    require(guarantee, merge_findings(merge, provenance))


@pytest.mark.parametrize(("merge", "provenance"), [(UPSERT, False), (DELETING, True)])
def test_one_that_cannot_holds_where_nothing_comes_again(merge: Merge, provenance: bool) -> None:
    for guarantee in WEAKER:
        with pytest.raises(UnsupportedGuarantee) as refused:
            require(guarantee, merge_findings(merge, provenance))
        assert refused.value.nearest is Guarantee.EXACTLY_ONCE
    require(Guarantee.EXACTLY_ONCE, merge_findings(merge, provenance))


def test_a_key_that_the_rows_do_not_have_is_refused_with_the_nearest() -> None:
    require_key(UPSERT, ["id", "v"], provenance=False)
    with pytest.raises(Usage, match=r"key 'id' is not a column of the rows \(idx, v\): did you mean 'idx'"):
        require_key(UPSERT, ["idx", "v"], provenance=True)
    with pytest.raises(Usage, match="order_by 'at' is not a column"):
        require_key(Merge(Mode.UPSERT, ("id",), order_by="at"), ["id"], provenance=True)
    with pytest.raises(Usage, match="tombstones: delete needs rows with provenance"):
        require_key(DELETING, ["id"], provenance=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("minPartitions", "8"),
        ("kafka.isolation.level", "read_uncommitted"),
        ("failOnDataLoss", "False"),
        ("asyncProgressTrackingEnabled", "true"),
        ("spark.speculation", "true"),
    ],
)
def test_settings_that_break_the_way_to_the_reader_are_found_in_any_spelling(name: str, value: str) -> None:
    (finding,) = reader_findings({name: value, "session.timeout.ms": "6000"})
    assert finding.hop is Hop.READER
    assert finding.reason.startswith(f"{name}={value}: ")


def test_only_a_pipeline_that_may_lose_may_skip_records_that_are_gone() -> None:
    findings = list(reader_findings({"failOnDataLoss": "false"}))
    require(Guarantee.AT_MOST_ONCE, findings)
    for stricter in (Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE):
        with pytest.raises(UnsupportedGuarantee) as refused:
            require(stricter, findings)
        assert refused.value.nearest is Guarantee.AT_MOST_ONCE


def test_the_same_settings_with_harmless_values_are_not() -> None:
    harmless = {"failOnDataLoss": "true", "isolation.level": "read_committed", "spark.speculation": "false"}
    assert list(reader_findings(harmless)) == []


def test_a_pipeline_must_not_read_what_it_writes() -> None:
    assert list(loop_findings(["orders"], ["paid"])) == []
    (finding,) = loop_findings(["refunds", "orders"], ["paid", "orders"])
    with pytest.raises(UnsupportedGuarantee, match="read and written"):
        require(Guarantee.AT_MOST_ONCE, [finding])
