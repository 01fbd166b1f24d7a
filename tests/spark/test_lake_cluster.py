"""Delta tables and Parquet files, written by executors in processes of their own, one of which is killed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from fencepost.lab.crash import visits
from fencepost.lab.pipelines.executors import executor_of, spark_home
from fencepost.local import Stack
from fencepost.machine import process
from spark.drivers import pipeline_process
from spark.faults import StopOn
from spark.lakes import LakeFlow
from spark.parquet_flow import ParquetFlow
from spark.test_cluster import LATE

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]


@pytest.mark.parametrize("kind", [LakeFlow, ParquetFlow])
def test_an_executor_killed_among_its_rows_is_replaced_and_everything_lands_once(
    stack: Stack, tmp_path: Path, kind: type[LakeFlow | ParquetFlow]
) -> None:
    flow = kind(stack, tmp_path)
    flow.produce(range(8_000))
    witness, home = tmp_path / "in-rows", spark_home(tmp_path)
    settings = {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "600m"}
    spec = flow.declare(transform=StopOn(LATE, witness).in_file(tmp_path), spark=settings)
    with pipeline_process(spec, "--once", env=home) as driver:
        driver.wait_until(lambda: visits(witness), "a task stands still among its rows")
        assert flow.landed() == []
        worker = process.identify(visits(witness)[0].pid)
        assert worker is not None
        assert process.send(executor_of(worker.pid), signal.SIGKILL)
        driver.wait_until(lambda: len(flow.landed()) == 8_000, "another executor does it again")
        process.send(worker, signal.SIGCONT)  # the killed executor's task may go on, if it still can
        assert driver.ended() == 0, driver.told()
    flow.assert_exact(8_000)
    assert flow.positions() == {0: 4_000, 1: 4_000}
