"""Drivers, tasks and the database that die or stand still while a batch goes through its stage."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fencepost.lab.crash import standing, visits
from spark.drivers import go_on, pipeline_process
from spark.faults import SortAndStop
from spark.flows import Flow

SORTED = {"sql": "SELECT id, _from FROM events ORDER BY id"}
FIRST = range(8_000)
LATE = 7_501  # in the last of four tasks


def _done(flow: Flow) -> int:
    """How many task attempts have said that they are done, in the one stage that there is."""
    names = [name for name in flow.stages() if name.endswith("_done")]
    return sum(flow.sql(f"SELECT count(*)::int FROM fencepost.{name}")[0][0] for name in names)


def _untouched(flow: Flow) -> bool:
    return flow.landed() == [] and flow.positions() == {0: 0, 1: 0}


@pytest.mark.timeout(900)
def test_a_driver_killed_before_its_transaction_leaves_a_stage_that_its_successor_drops(
    flow: Flow, tmp_path: Path
) -> None:
    flow.produce(range(400))
    started = tmp_path / "started"
    spec = flow.declare(transform=SORTED)
    with pipeline_process(spec, "--once", "--crash", "started", "0", "stop", str(started)) as driver:
        driver.wait_until(lambda: visits(started), "everything is staged")
        driver.kill()
    assert _done(flow) == 4
    assert _untouched(flow)
    assert flow.run(transform=SORTED).rows == 400
    flow.assert_exact(400)
    assert flow.stages() == []


@pytest.mark.proof
@pytest.mark.timeout(1200)
def test_a_driver_killed_with_half_the_tasks_done_and_around_its_transaction_loses_and_doubles_nothing(
    flow: Flow, tmp_path: Path
) -> None:
    flow.produce(FIRST)
    in_task = tmp_path / "in-task"
    transform = SortAndStop(LATE, in_task).in_file(tmp_path)
    spec = flow.declare(transform=transform)
    with pipeline_process(spec, "--once") as driver:
        driver.wait_until(lambda: visits(in_task) and _done(flow) == 3, "three tasks are done, one is in its rows")
        driver.kill()
    assert _untouched(flow)

    for step in ("written", "advanced"):  # moved, not committed; with the positions, not committed
        witness = tmp_path / step
        with pipeline_process(spec, "--once", "--crash", step, "0", "stop", str(witness)) as driver:
            driver.wait_until(partial(visits, witness), f"the driver is at {step}")
            assert _done(flow) == 4  # those of the killed runs are gone
            driver.kill()
        assert _untouched(flow)

    delivered = tmp_path / "delivered"
    with pipeline_process(spec, "--once", "--crash", "delivered", "1", "stop", str(delivered)) as driver:
        driver.wait_until(lambda: visits(delivered), "all is committed")
        assert driver.news("batch") == []  # and the run does not know
        driver.kill()
    flow.assert_exact(8_000)
    assert flow.positions() == {0: 4_000, 1: 4_000}

    flow.produce(range(8_000, 8_100))
    assert flow.run(transform=transform).rows == 100
    flow.assert_exact(8_100)
    assert flow.stages() == []


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_stopped_driver_is_fenced_when_it_goes_on_after_its_successor(flow: Flow, tmp_path: Path) -> None:
    flow.produce(range(400))
    started = tmp_path / "started"
    spec = flow.declare(transform=SORTED)
    with pipeline_process(spec, "--once", "--crash", "started", "0", "stop", str(started)) as driver:
        driver.wait_until(lambda: standing(started), "the driver stands before its transaction")
        driver.stop()
        assert _done(flow) == 4
        assert flow.run(transform=SORTED).rows == 400
        flow.assert_exact(400)
        assert flow.stages() == []

        driver.go_on()
        assert driver.ended() == 4, driver.told()
        assert [told["error"] for told in driver.news("failed")] == ["Fenced"]
    flow.assert_exact(400)
    assert flow.stages() == []


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_stopped_task_is_fenced_when_it_goes_on_after_its_successor(flow: Flow, tmp_path: Path) -> None:
    """It stands in the middle of its rows, and wakes up to a stage that is gone."""
    flow.produce(FIRST)
    in_task = tmp_path / "in-task"
    transform = SortAndStop(LATE, in_task).in_file(tmp_path)
    with pipeline_process(flow.declare(transform=transform), "--once") as driver:
        driver.wait_until(lambda: standing(in_task) and _done(flow) == 3, "three tasks are done, one is in its rows")
        driver.stop()
        assert flow.run(transform=transform).rows == 8_000
        driver.go_on()
        assert driver.ended() == 4, driver.told()
    flow.assert_exact(8_000)
    assert flow.stages() == []


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_database_killed_between_staging_and_moving_costs_the_stage_and_no_record(flow: Flow, tmp_path: Path) -> None:
    flow.produce(range(400))
    started = tmp_path / "started"
    spec = flow.declare(transform=SORTED)
    with pipeline_process(spec, "--once", "--crash", "started", "0", "stop", str(started)) as driver:
        driver.wait_until(lambda: visits(started), "everything is staged")
        try:
            flow.stack.postgres.kill()
        finally:
            flow.stack.postgres.restart()
        assert len(flow.stages()) == 2
        assert _done(flow) == 0  # the tables are there, and empty
        go_on(visits(started)[0].pid)
        assert driver.ended() == 0, driver.told()
        assert driver.news("waiting"), driver.told()
    flow.assert_exact(400)
    assert flow.stages() == []
