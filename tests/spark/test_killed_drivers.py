"""A driver that dies with all its processes: the next run goes on from the table itself, and needs nothing else."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from fencepost.errors import Unreachable
from fencepost.lab.crash import visits
from fencepost.machine import process
from spark.drivers import go_on, naive_process, pipeline_process, run_command, spark_here, wait_for
from spark.faults import StopOn
from spark.flows import Flow

FIRST = range(8_000)  # four thousand in each of two partitions: four record batches
MORE = range(8_000, 10_000)
LATE = 6_001  # in the last record batch but one of partition 1


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_driver_killed_in_mid_copy_loses_and_doubles_nothing(flow: Flow, tmp_path: Path) -> None:
    flow.produce(FIRST)
    in_copy = tmp_path / "in-copy"
    transform = StopOn(LATE, in_copy).in_file(tmp_path)
    with pipeline_process(flow.declare(transform=transform), "--once") as driver:
        driver.wait_until(lambda: visits(in_copy) and flow.positions()[0] == 4_000, "partition 0 is done, 1 in COPY")
        assert flow.in_mid_copy()
        driver.kill()
    assert flow.positions() == {0: 4_000, 1: 0}
    assert (flow.landed_in(0), flow.landed_in(1)) == (4_000, 0)
    _lose_checkpoint(driver.scratch)

    flow.produce(MORE)
    assert flow.run(transform=transform).rows == 6_000
    flow.assert_exact(10_000)


@pytest.mark.timeout(900)
def test_a_driver_killed_between_the_commits_and_the_end_of_its_batch_loses_and_doubles_nothing(
    flow: Flow, tmp_path: Path
) -> None:
    flow.produce(FIRST)
    delivered = tmp_path / "delivered"
    with pipeline_process(flow.declare(), "--once", "--crash", "delivered", "1", "stop", str(delivered)) as driver:
        driver.wait_until(lambda: visits(delivered) and flow.positions() == {0: 4_000, 1: 4_000}, "all is committed")
        assert driver.news("batch") == []  # and the driver does not know
        driver.kill()
    flow.assert_exact(8_000)
    _lose_checkpoint(driver.scratch)

    flow.produce(MORE)
    assert flow.run().rows == 2_000
    flow.assert_exact(10_000)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_run_whose_spark_dies_alone_says_so_and_the_next_one_goes_on(flow: Flow, tmp_path: Path) -> None:
    flow.produce(FIRST)
    in_copy = tmp_path / "in-copy"
    transform = StopOn(LATE, in_copy).in_file(tmp_path)
    with run_command(flow.declare(transform=transform)) as driver:
        driver.wait_until(lambda: visits(in_copy) and flow.positions()[0] == 4_000, "partition 0 is done, 1 in COPY")
        driver.kill_spark()
        assert driver.ended() == 3, driver.told()
        assert "Spark's JVM exited" in driver.told()
        assert "Traceback" not in driver.told(), driver.told()
    assert flow.positions() == {0: 4_000, 1: 0}
    try:
        assert flow.run(transform=transform).rows == 4_000
    finally:
        go_on(visits(in_copy)[0].pid)  # the worker that was in COPY when its Spark died
    flow.assert_exact(8_000)


@pytest.mark.proof
def test_a_process_whose_spark_died_can_run_the_pipeline_again(flow: Flow) -> None:
    flow.produce(range(100))
    with flow.running() as running:
        running.wait_until(lambda: len(flow.landed()) == 100, "a batch has landed")
        process.send(spark_here(), signal.SIGKILL)
        wait_for(lambda: running.failure, "the run ends")
    assert isinstance(running.failure, Unreachable)
    flow.produce(range(100, 200))
    assert flow.run().rows == 100
    flow.assert_exact(200)


@pytest.mark.timeout(600)
@pytest.mark.proof
def test_control_foreach_batch_with_jdbc_append_doubles_what_a_killed_driver_had_committed(
    flow: Flow, tmp_path: Path
) -> None:
    flow.produce(FIRST)
    in_write = tmp_path / "in-write"
    settings = {
        **flow.kafka,
        "topic": flow.name,
        "dsn": flow.stack.dsn,
        "checkpoint": str(tmp_path / "checkpoint"),
        "stop_on": LATE,
        "witness": str(in_write),
    }
    with naive_process(tmp_path, settings) as driver:
        driver.wait_until(lambda: visits(in_write) and flow.landed_in(0) == 4_000, "partition 0 is done, 1 under way")
        driver.kill()
    with naive_process(tmp_path, settings) as driver:
        assert driver.ended() == 0, driver.told()
    found = flow.comparison()
    assert (found.lost, found.duplicated) == (0, 4_000)


@pytest.mark.timeout(900)
@pytest.mark.proof
def test_what_a_killed_run_left_behind_is_cleared_by_the_next_and_what_a_live_one_needs_is_not(
    flow: Flow, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    here = {"TMPDIR": str(place)}
    live = Flow(flow.stack, tmp_path / "live")
    for folder in (place, live.folder):
        folder.mkdir()
    for each in (flow, live):
        each.produce(range(100))
    with pipeline_process(live.declare(), env=here) as survivor:
        survivor.wait_until(lambda: survivor.news("batch"), "a run that lives on")
        (needed,) = place.iterdir()
        with pipeline_process(flow.declare(), env=here) as driver:
            driver.wait_until(lambda: driver.news("batch"), "a run that is killed")
            driver.kill()
        assert len(list(place.iterdir())) == 2

        with pipeline_process(flow.declare(), "--once", env=here) as driver:
            assert driver.ended() == 0, driver.told()
        assert list(place.iterdir()) == [needed]
        live.produce(range(100, 200))
        survivor.wait_until(lambda: len(live.landed()) == 200, "it lives on")


def _lose_checkpoint(scratch: Path) -> None:
    """Everything that Spark had written down about its progress is gone."""
    assert list(scratch.glob("fencepost-*/checkpoint-*/offsets/*")), "the killed run had a checkpoint"
    shutil.rmtree(scratch)
