"""Small batches, which the driver delivers itself: killed, stopped, beside large ones, with bad records."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import psutil
import pytest

from fencepost.lab.crash import standing, visits
from fencepost.local import Stack
from spark.drivers import pipeline_process
from spark.faults import Noted
from spark.flows import Flow
from spark.topic_flows import TopicFlow

PROOF = pytest.mark.proof
SMALL = {"small": 500}
SINKS = {"postgres": Flow, "kafka": TopicFlow}


@pytest.fixture(params=["postgres", pytest.param("kafka", marks=PROOF)])
def flow(request: pytest.FixtureRequest, stack: Stack, tmp_path: Path) -> Flow:
    return SINKS[request.param](stack, tmp_path)


def aside(flow: Flow) -> dict[str, Any]:
    """What sends bad records there."""
    topic = {"dead_letters": {"topic": flow.make_more("dead")}} if isinstance(flow, TopicFlow) else {}
    return {"on_error": "dead_letter", **topic}


def test_small_batches_are_delivered_here_and_large_ones_by_tasks_in_one_run(flow: Flow, tmp_path: Path) -> None:
    noted = Noted(tmp_path / "delivered")
    flow.produce(range(300), {7: b"{"})
    with flow.running(noted, batch={"small": 500, "every": "200ms"}, **aside(flow)) as running:
        running.wait_until(lambda: len(flow.landed()) == 299, "a small batch has landed")
        assert set(noted.processes()) == {os.getpid()}
        flow.produce_in_transaction(range(300, 2_300), commit=True)  # at once
        running.wait_until(lambda: len(flow.landed()) == 2_299, "a large one has landed")
        assert os.getpid() not in noted.processes()
        flow.produce(range(2_300, 2_400), {2_301: b"{"})
        running.wait_until(lambda: len(flow.landed()) == 2_398, "a small one has landed")
        assert set(noted.processes()) == {os.getpid()}
    assert running.failure is None
    assert sum(done.dead for done in running.batches()) == 2
    assert sorted(flow.landed()) == [id_ for id_ in range(2_400) if id_ not in (7, 2_301)]


def _stop_at(step: str, witness: Path) -> list[str]:
    return ["--once", "--crash", step, "1", "stop", str(witness)]


CASES = [(sink, step) for sink in SINKS for step in ("started", "written", "advanced", "delivered")]


@PROOF
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("flow", "step"), CASES, indirect=["flow"])
def test_a_driver_that_stood_still_in_its_own_delivery_is_fenced(flow: Flow, tmp_path: Path, step: str) -> None:
    flow.produce(range(200))
    spec, witness = flow.declare(batch=SMALL), tmp_path / "witness"
    with pipeline_process(spec, *_stop_at(step, witness)) as driver:
        driver.wait_until(lambda: standing(witness), f"it stands still at {step}")
        assert "worker_daemon" not in " ".join(psutil.Process(visits(witness)[0].pid).cmdline())
        flow.run(batch=SMALL)
        flow.assert_exact(200)
        driver.go_on()
        if step == "delivered":  # everything of its own is there: it may have ended before it looked
            assert driver.ended() in (0, 4), driver.told()
        else:
            assert driver.ended() == 4, driver.told()
            assert [told["error"] for told in driver.news("failed")] == ["Fenced"]
    flow.assert_exact(200)


@PROOF
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("flow", "step"), CASES, indirect=["flow"])
def test_a_driver_killed_in_its_own_delivery_loses_and_doubles_nothing(flow: Flow, tmp_path: Path, step: str) -> None:
    flow.produce(range(200))
    spec, witness = flow.declare(batch=SMALL), tmp_path / "witness"
    with pipeline_process(spec, *_stop_at(step, witness)) as driver:
        driver.wait_until(lambda: standing(witness), f"it stands still at {step}")
        driver.kill()
    shutil.rmtree(driver.scratch)
    flow.produce(range(200, 300))
    flow.run(batch=SMALL)
    flow.assert_exact(300)


@PROOF
@pytest.mark.parametrize(
    ("guarantee", "step", "lost", "doubled"),
    [("at-least-once", "written", 0, 100), ("at-most-once", "advanced", 100, 0)],
)
def test_control_the_other_guarantees_double_or_lose(
    flow: Flow, tmp_path: Path, guarantee: str, step: str, lost: int, doubled: int
) -> None:
    flow.produce(range(200))
    witness = tmp_path / "witness"
    with pipeline_process(flow.declare(guarantee=guarantee, batch=SMALL), *_stop_at(step, witness)) as driver:
        driver.wait_until(lambda: standing(witness), "it stands still between its two steps")
        driver.kill()
    flow.run(guarantee=guarantee, batch=SMALL)
    found = flow.comparison()
    # the other partition may have been between them, too
    assert found.lost in ({lost, 2 * lost}), found
    assert found.duplicated in ({doubled, 2 * doubled}), found
