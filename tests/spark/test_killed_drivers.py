"""A driver that dies with all its processes: the next run goes on from the table itself, and needs nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fencepost.lab.crash import visits
from spark.drivers import naive_process, pipeline_process
from spark.faults import StopOn
from spark.flows import Flow

FIRST = range(8_000)  # four thousand in each of two partitions: four record batches
MORE = range(8_000, 10_000)
LATE = 6_001  # in the last record batch but one of partition 1


@pytest.mark.timeout(900)
def test_a_driver_killed_in_mid_copy_and_again_after_the_commits_loses_and_doubles_nothing(
    flow: Flow, tmp_path: Path
) -> None:
    flow.produce(FIRST)
    in_copy, delivered = tmp_path / "in-copy", tmp_path / "delivered"
    spec = flow.declare(transform=StopOn(LATE, in_copy).in_file(tmp_path))

    with pipeline_process(spec, "--once") as driver:
        driver.wait_until(lambda: visits(in_copy) and flow.positions()[0] == 4_000, "partition 0 is done, 1 in COPY")
        assert flow.in_mid_copy()
        driver.kill()
    assert flow.positions() == {0: 4_000, 1: 0}
    assert (flow.landed_in(0), flow.landed_in(1)) == (4_000, 0)
    _lose_checkpoint(driver.scratch)

    flow.produce(MORE)
    with pipeline_process(spec, "--once", "--crash", "delivered", "1", "stop", str(delivered)) as driver:
        driver.wait_until(lambda: visits(delivered) and flow.positions() == {0: 5_000, 1: 5_000}, "all is committed")
        assert driver.news("batch") == []  # and the driver does not know
        driver.kill()
    flow.assert_exact(10_000)
    _lose_checkpoint(driver.scratch)

    flow.produce(range(10_000, 10_100))
    resumed = flow.run(transform=StopOn(LATE, in_copy).in_file(tmp_path))
    assert resumed.rows == 100
    flow.assert_exact(10_100)


@pytest.mark.timeout(600)
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


def _lose_checkpoint(scratch: Path) -> None:
    """Everything that Spark had written down about its progress is gone."""
    assert list(scratch.glob("fencepost-*/offsets/*")), "the killed run had a checkpoint"
    shutil.rmtree(scratch)
