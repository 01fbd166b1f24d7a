"""Executors in processes of their own: everything that a task needs crosses to them, and one may die."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pyspark
import pytest

from fencepost.lab.crash import visits
from fencepost.machine import process
from spark.drivers import pipeline_process
from spark.faults import StopOn
from spark.flows import Flow

LATE = 6_001  # in partition 1, after several record batches


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_an_executor_killed_in_mid_copy_is_replaced_and_everything_lands_once(flow: Flow, tmp_path: Path) -> None:
    flow.produce(range(8_000))
    in_copy = tmp_path / "in-copy"
    spec = flow.declare(
        transform=StopOn(LATE, in_copy).in_file(tmp_path), spark={"spark.master": "local-cluster[2,1,1024]"}
    )
    with pipeline_process(spec, "--once", env=_cluster_home(tmp_path)) as driver:
        driver.wait_until(lambda: visits(in_copy) and flow.positions()[0] == 4_000, "partition 0 is done, 1 in COPY")
        assert flow.in_mid_copy()
        worker = process.identify(visits(in_copy)[0].pid)
        executor = _executor_of(visits(in_copy)[0].pid)
        assert worker is not None
        assert process.send(executor, signal.SIGKILL)
        driver.wait_until(lambda: flow.positions() == {0: 4_000, 1: 4_000}, "another executor does the span")
        process.send(worker, signal.SIGCONT)  # the killed executor's task may go on, if it still can
        assert driver.ended() == 0, driver.told()
    assert [visit.acted for visit in visits(in_copy)] == [True, False]
    flow.assert_exact(8_000)


def _executor_of(worker: int) -> process.Identity:
    """The process whose task that worker does."""
    above = psutil.Process(worker).parents()
    executors = [parent.pid for parent in above if any("ExecutorBackend" in word for word in parent.cmdline())]
    (identity,) = filter(None, map(process.identify, executors))
    return identity


def _cluster_home(folder: Path) -> dict[str, str]:
    """pip's pyspark under a folder that executors may write into."""
    home = folder / "spark-home"
    home.mkdir()
    for entry in Path(pyspark.__path__[0]).iterdir():
        (home / entry.name).symlink_to(entry)
    return {
        "SPARK_HOME": os.fspath(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
    }
