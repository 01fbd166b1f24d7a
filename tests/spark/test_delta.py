"""A pipeline into a Delta table: what lands, what is said of it, and what a killed driver leaves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fencepost.admin.plan import plan_pipeline
from fencepost.admin.status import pipeline_status
from fencepost.lab.crash import standing, visits
from fencepost.local import Stack
from fencepost.spec import load
from spark.drivers import native_process, pipeline_process
from spark.faults import StopOn
from spark.lakes import LakeFlow

FIRST = range(8_000)  # four thousand in each of two partitions: four record batches
LATE = 6_001  # in the last record batch but one of partition 1


@pytest.fixture
def lake(stack: Stack, tmp_path: Path) -> LakeFlow:
    return LakeFlow(stack, tmp_path)


def test_records_land_once_with_their_places_and_the_next_run_goes_on(lake: LakeFlow) -> None:
    lake.produce(range(100))
    plan = plan_pipeline(load(lake.declare()), offline=False)
    assert (plan.path, plan.target_exists, plan.columns["id"], plan.columns["_offset"]) == (
        "whole",
        False,
        "long",
        "long",
    )
    assert not Path(lake.path).exists()

    assert lake.run().rows == 100
    lake.assert_exact(100)
    lake.produce(range(100, 150))
    assert lake.run().rows == 50
    lake.assert_exact(150)
    rows = lake.table().to_pyarrow_table().to_pylist()
    assert {(row["_topic"], row["_partition"], row["_offset"], row["_n"]) for row in rows} == {
        (lake.name, partition, offset, 0) for partition in (0, 1) for offset in range(75)
    }
    status = pipeline_status(load(lake.declare()))
    assert [(one.position, one.lag, one.epoch) for one in status.partitions] == [(75, 0, 2), (75, 0, 2)]


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_driver_killed_with_half_its_tasks_done_loses_and_doubles_nothing(lake: LakeFlow, tmp_path: Path) -> None:
    lake.produce(FIRST)
    in_task = tmp_path / "in-task"
    transform = StopOn(LATE, in_task).in_file(tmp_path)
    with pipeline_process(lake.declare(transform=transform), "--once") as driver:
        driver.wait_until(lambda: visits(in_task) and lake.data_files(), "a task is done, the other in its rows")
        driver.kill()
    assert (lake.positions(), lake.landed()) == ({0: 0, 1: 0}, [])
    shutil.rmtree(driver.scratch)

    assert lake.run(transform=transform).rows == 8_000
    lake.assert_exact(8_000)


@pytest.mark.timeout(900)
def test_a_driver_killed_between_the_commit_and_the_end_of_its_batch_loses_and_doubles_nothing(
    lake: LakeFlow, tmp_path: Path
) -> None:
    lake.produce(FIRST)
    delivered = tmp_path / "delivered"
    with pipeline_process(lake.declare(), "--once", "--crash", "delivered", "1", "stop", str(delivered)) as driver:
        driver.wait_until(lambda: visits(delivered), "all is committed")
        assert driver.news("batch") == []  # and the driver does not know
        driver.kill()
    lake.assert_exact(8_000)
    shutil.rmtree(driver.scratch)

    lake.produce(range(8_000, 8_100))
    assert lake.run().rows == 100
    lake.assert_exact(8_100)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_task_in_the_middle_of_its_rows_is_fenced(lake: LakeFlow, tmp_path: Path) -> None:
    lake.produce(FIRST)
    witness = tmp_path / "in-task"
    transform = StopOn(LATE, witness).in_file(tmp_path)
    with pipeline_process(lake.declare(transform=transform), "--once") as driver:
        driver.wait_until(lambda: standing(witness), "a task stands in the middle of its rows")
        driver.stop()
        assert lake.run(transform=transform).rows == 8_000
        driver.go_on()
        assert driver.ended() == 4, driver.told()
    lake.assert_exact(8_000)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_control_sparks_own_delta_sink_doubles_everything_when_its_checkpoint_is_lost(
    lake: LakeFlow, tmp_path: Path
) -> None:
    lake.produce(range(1_000))
    settings = {**lake.kafka, "topic": lake.name, "path": lake.path, "checkpoint": str(tmp_path / "checkpoint")}
    for expected in (0, 1_000):
        with native_process(tmp_path, settings) as driver:
            assert driver.ended() == 0, driver.told()
        found = lake.comparison()
        assert (found.lost, found.duplicated) == (0, expected)
        shutil.rmtree(tmp_path / "checkpoint")
