"""Executors in processes of their own: everything that a task needs crosses to them, and one may die."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencepost.lab.crash import visits
from fencepost.lab.pipelines.executors import executor_of, spark_home
from fencepost.machine import process
from spark.drivers import pipeline_process
from spark.faults import StopOn
from spark.flows import Flow
from spark.standalone import SECRET, standalone

LATE = 6_001  # in partition 1, after several record batches


@contextmanager
def cluster(kind: str, folder: Path, home: Mapping[str, str]) -> Iterator[str]:
    if kind == "standalone":
        with standalone(folder, home) as url:
            yield url
    else:
        yield "local-cluster[2,1,1024]"


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["local-cluster", "standalone"])
def test_an_executor_killed_in_mid_copy_is_replaced_and_everything_lands_once(
    flow: Flow, tmp_path: Path, kind: str
) -> None:
    flow.produce(range(8_000))
    in_copy, home = tmp_path / "in-copy", spark_home(tmp_path)
    with cluster(kind, tmp_path, home) as master:
        settings = {"spark.master": master, "spark.executor.memory": "600m"}
        if kind == "standalone":
            settings["spark.authenticate.secret"] = SECRET
        spec = flow.declare(transform=StopOn(LATE, in_copy).in_file(tmp_path), spark=settings)
        with pipeline_process(spec, "--once", env=home) as driver:
            driver.wait_until(
                lambda: visits(in_copy) and flow.positions()[0] == 4_000, "partition 0 is done, 1 in COPY"
            )
            assert flow.in_mid_copy()
            worker = process.identify(visits(in_copy)[0].pid)
            executor = executor_of(visits(in_copy)[0].pid)
            assert worker is not None
            assert process.send(executor, signal.SIGKILL)
            driver.wait_until(lambda: flow.positions() == {0: 4_000, 1: 4_000}, "another executor does the span")
            process.send(worker, signal.SIGCONT)  # the killed executor's task may go on, if it still can
            assert driver.ended() == 0, driver.told()
    assert [visit.acted for visit in visits(in_copy)] == [True, False]
    flow.assert_exact(8_000)
