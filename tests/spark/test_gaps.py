"""Records that are gone before they were read: under at-most-once a run may go on behind them, and says so."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from fencepost.admin.plan import plan_pipeline
from fencepost.engines.listener import Skipped
from fencepost.errors import RecordsGone, TopicRecreated, UnsupportedGuarantee
from fencepost.kafka.topics import delete_topic
from fencepost.lab.crash import CrashAction, CrashPoint, visits
from fencepost.model import Span, Step
from fencepost.spec import load
from spark.drivers import go_on, run_command
from spark.faults import Several
from spark.flows import SCHEMA, Flow

ENGINES: dict[str, dict[str, Any]] = {"spark": {}, "python": {"engine": "python", "transform": None}}
GONE = list(range(101, 141, 2))  # the ids at 50 to 69 of partition 1


def _parts(flow: Flow, engine: str, skip: bool = True, guarantee: str = "at-most-once") -> dict[str, Any]:
    source = {"topic": flow.name, "value": "json", "schema": SCHEMA, "failOnDataLoss": not skip}
    return {**ENGINES[engine], "guarantee": guarantee, "source": source}


@pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.proof), "python"])
def test_a_run_that_may_lose_goes_on_at_the_first_record_there_is_and_tells_what_was_gone(
    flow: Flow, engine: str
) -> None:
    flow.produce(range(100))
    flow.run(**_parts(flow, engine, skip=False))
    flow.produce(range(100, 200))
    flow.delete_before(1, 70)
    with pytest.raises(RecordsGone):
        flow.run(**_parts(flow, engine, skip=False))
    for stricter in ("at-least-once", "exactly-once"):
        with pytest.raises(UnsupportedGuarantee, match=r"failOnDataLoss=false.*at-most-once is possible"):
            flow.run(**_parts(flow, engine, guarantee=stricter))
    assert flow.positions() == {0: 50, 1: 50}

    told = [news for news in flow.run(**_parts(flow, engine)).news if isinstance(news, Skipped)]
    assert told == [Skipped(flow.partition(1), Span(50, 70))]
    assert sorted(set(range(200)) - set(flow.landed())) == GONE
    assert len(flow.landed()) == 180
    assert flow.positions() == flow.ends()
    assert not [news for news in flow.run(**_parts(flow, engine)).news if isinstance(news, Skipped)]  # said once


@pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.proof), "python"])
def test_a_topic_created_again_is_refused_all_the_same(flow: Flow, engine: str) -> None:
    flow.produce(range(100))
    flow.run(**_parts(flow, engine))
    delete_topic(flow.cluster, flow.name)
    flow.make_topic()
    flow.produce(range(200))
    flow.delete_before(1, 70)
    before = flow.stored()
    with pytest.raises(TopicRecreated):
        flow.run(**_parts(flow, engine))
    assert flow.stored() == before


@pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.proof), "python"])
def test_records_that_go_while_it_runs_are_skipped_too_and_counted_at_the_end(flow: Flow, engine: str) -> None:
    flow.produce(range(100))
    with run_command(flow.declare(**_parts(flow, engine)), "--format", "json") as driver:
        driver.wait_until(lambda: len(flow.landed()) == 100, "the first records land")
        driver.stop()
        flow.produce(range(100, 102))  # may be on their way to it already: the answer to its last request
        flow.produce(range(102, 200))
        flow.delete_before(1, 70)
        driver.go_on()
        driver.wait_until(lambda: {199, 198} <= set(flow.landed()), "what is left lands")
        driver.signal(signal.SIGTERM)
        assert driver.ended() == 0
        (told,) = driver.news("skipped")
        assert (told["partition"], told["end"]) == (str(flow.partition(1)), 70)
        assert driver.news("ended")[0]["skipped"] == 70 - told["start"]
    assert told["start"] in (50, 51)
    assert sorted(set(range(200)) - set(flow.landed())) == GONE[told["start"] - 50 :]


@pytest.mark.proof
def test_a_batch_whose_records_go_while_it_is_read_is_lost_and_the_run_goes_on(flow: Flow, tmp_path: Path) -> None:
    """Of two tasks one after the other, the first stands still while the records of the second are deleted."""
    flow.produce(range(200))
    first = tmp_path / "first"
    stops = [CrashPoint(Step.STARTED, flow.partition(number), CrashAction.STOP, first) for number in (0, 1)]
    parts = _parts(flow, "spark") | {"spark": {"spark.master": "local[1,2]"}}
    with flow.running(see=Several(tuple(stops)), **parts) as running:
        running.wait_until(lambda: visits(first), "one task stands still")
        other = 0 if str(flow.partition(1)) in visits(first)[0].where else 1
        flow.delete_before(other, 70)
        go_on(visits(first)[0].pid)
        flow.produce(range(200, 300))
        running.wait_until(lambda: set(range(200, 300)) <= set(flow.landed()), "the next records land")
    assert running.failure is None
    assert len(flow.landed()) == len(set(flow.landed()))
    assert flow.landed_in(1 - other) == 150


def test_plan_says_that_records_which_are_gone_are_skipped(flow: Flow) -> None:
    plan = plan_pipeline(load(flow.declare(**_parts(flow, "python"))), offline=True)
    assert "records that were deleted unread are skipped and counted" in plan.hops[0].why
