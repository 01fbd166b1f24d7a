"""Settings of somebody's own stream that break its guarantee, each with what to set."""

from __future__ import annotations

import pickle

import pytest

import fencepost
from fencepost.errors import UnsupportedGuarantee, Usage
from fencepost.guarantee import Guarantee
from fencepost.rules.findings import require
from fencepost.rules.reader import source_findings, stream_findings

GOOD = {"kafka.isolation.level": "read_committed", "failOnDataLoss": "true"}
SINK = {"format": "postgres", "options": {"table": "orders"}}


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ({"minPartitions": "8"}, "remove the option"),
        ({"maxRecordsPerPartition": "8"}, "set maxOffsetsPerTrigger"),
        ({"failOnDataLoss": "False"}, "remove the option"),
        ({"kafka.isolation.level": "read_uncommitted"}, '.option("kafka.isolation.level", "read_committed")'),
    ],
    ids=lambda part: next(iter(part)) if isinstance(part, dict) else "",
)
@pytest.mark.parametrize("guarantee", [Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE])
def test_an_option_of_the_source_is_refused(option: dict[str, str], remedy: str, guarantee: Guarantee) -> None:
    require(guarantee, source_findings(GOOD))
    with pytest.raises(UnsupportedGuarantee) as refused:
        require(guarantee, source_findings({**GOOD, **option}))
    assert next(iter(option)) in refused.value.message
    assert remedy in refused.value.remedy


def test_spark_reads_what_is_not_committed_unless_it_is_told_otherwise() -> None:
    with pytest.raises(UnsupportedGuarantee):
        require(Guarantee.AT_MOST_ONCE, source_findings({}))


def test_at_most_once_may_lose_what_is_gone() -> None:
    require(Guarantee.AT_MOST_ONCE, source_findings({**GOOD, "failondataloss": "false"}))


@pytest.mark.parametrize("name", ["spark.speculation", "asyncProgressTrackingEnabled"])
def test_a_setting_of_the_session_is_refused(name: str) -> None:
    require(Guarantee.EXACTLY_ONCE, stream_findings({name: "false"}))
    with pytest.raises(UnsupportedGuarantee):
        require(Guarantee.EXACTLY_ONCE, stream_findings({name: "true"}))


def test_what_is_declared_wrong_is_said_before_there_is_a_stream() -> None:
    with pytest.raises(Usage):
        fencepost.spark.exactly_once("shop", sink={"format": "postgres", "options": {"tabel": "orders"}})
    with pytest.raises(Usage):
        fencepost.spark.exactly_once("a shop", sink=SINK)


def test_spark_connect_which_would_send_it_elsewhere_is_refused() -> None:
    with pytest.raises(Usage):
        pickle.dumps(fencepost.spark.exactly_once("shop", sink=SINK))
