"""A task's input that breaks off half way. The end of the rows is not the end of the span: nothing of it may commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from pyspark import SparkContext

from fencepost.engines.spark.input_guard import InputGuard
from fencepost.errors import FencepostError, InputCut, Poison, Refused
from fencepost.lab.crash import visits
from spark.drivers import go_on, never, running_tasks, wait_for
from spark.faults import StopOn, Unguarded
from spark.flows import RETRIES, Flow
from spark.transforms import BAD, FailsOnce
from support.gate_cases import in_the_gate

IDS = range(40_000)  # twenty thousand in each partition: twenty record batches
BAD_CAST = {BAD: json.dumps({"id": BAD, "s": "not a number"}).encode()}
FAILING = {
    "cast": {"sql": "SELECT cast(s AS long) AS id, _from FROM events"},
    "function": {"spark": "spark.transforms:function_fails"},
    "cast before a function": {"spark": "spark.transforms:cast_fails_before_a_python_function"},
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("transform", in_the_gate(FAILING, "function"))
def test_a_record_that_always_fails_stops_the_run_and_nothing_of_its_span_lands(flow: Flow, transform: str) -> None:
    flow.produce(IDS, BAD_CAST)
    with pytest.raises(Poison) as stopped:
        flow.run(transform=FAILING[transform])
    assert stopped.value.partition == str(flow.partition(1))
    assert [offset for offset, _ in stopped.value.records] == [15_000]
    never(lambda: flow.landed_in(1) or flow.positions()[1], "a part of the span lands")
    assert flow.landed_in(0) == flow.positions()[0] in (0, 20_000)  # the other one is whole, or was given up with it


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_a_function_that_fails_once_is_tried_again_and_everything_lands(flow: Flow, tmp_path: Path) -> None:
    flow.produce(IDS)
    witness = tmp_path / "failed"
    flow.run(transform=FailsOnce(witness).in_file(tmp_path), spark=RETRIES)
    assert [visit.acted for visit in visits(witness)] == [True, False]
    flow.assert_exact(40_000)


@pytest.mark.timeout(600)
@pytest.mark.proof
def test_control_without_the_guard_the_same_failure_loses_rows_and_nobody_says_so(flow: Flow, tmp_path: Path) -> None:
    """The attempt that was cut commits what it got, and the next one, which waits for that, finds it done."""
    flow.produce(IDS)
    delivered = tmp_path / "delivered"
    transform = FailsOnce(tmp_path / "failed", then=delivered).in_file(tmp_path)
    run = flow.run(see=Unguarded(insists=False, delivered=delivered), transform=transform, spark=RETRIES)
    assert delivered.exists(), "the attempt that was cut did not commit"
    assert [batch.already for batch in run.batches()] == [1]
    assert flow.positions() == {0: 20_000, 1: 20_000}
    found = flow.comparison()
    assert 5_000 <= found.lost <= 20_000
    assert found.duplicated == 0


@pytest.mark.timeout(600)
@pytest.mark.proof
def test_a_cancelled_job_commits_nothing_of_a_span_in_mid_copy(flow: Flow, tmp_path: Path) -> None:
    ended = _cancelled_in_mid_copy(flow, tmp_path, flow.run)
    assert isinstance(ended, Refused)
    never(lambda: flow.landed_in(1) or flow.positions()[1], "a part of the span lands")
    flow.run()
    flow.assert_exact(40_000)


@pytest.mark.timeout(600)
@pytest.mark.proof
def test_control_without_the_guard_a_cancelled_job_loses_rows(flow: Flow, tmp_path: Path) -> None:
    _cancelled_in_mid_copy(flow, tmp_path, lambda **parts: flow.run(see=Unguarded(insists=False), **parts))
    assert flow.positions()[1] == 20_000
    assert 0 < flow.landed_in(1) < 20_000


@pytest.mark.proof
def test_where_pyspark_reads_its_input_another_way_nothing_lands(flow: Flow) -> None:
    flow.produce(range(200))
    with pytest.raises(Refused):
        flow.run(see=Unguarded(insists=True))
    assert flow.landed() == []
    assert flow.positions() == {0: 0, 1: 0}


def test_a_guard_whose_loader_was_not_used_says_that_the_input_is_not_proven_whole() -> None:
    with pytest.raises(InputCut):
        InputGuard().require_complete()


def _cancelled_in_mid_copy(flow: Flow, folder: Path, run: Callable[..., object]) -> FencepostError | None:
    """Cancel the job from the driver while a task stands between two of its record batches, then let it go on."""
    padding = "x" * 300  # more than the sockets between Spark and its worker can hold
    flow.produce(IDS, {id_: json.dumps({"id": id_, "s": padding}).encode() for id_ in IDS})
    in_copy = folder / "in-copy"
    failures: list[FencepostError] = []

    def carry() -> None:
        try:
            run(
                transform=StopOn(2_501, in_copy).in_file(folder),
                spark={"spark.python.task.killTimeout": "120s"},  # or Spark kills the worker before it can do harm
            )
        except FencepostError as error:
            failures.append(error)

    runner = Thread(target=carry)
    runner.start()
    try:
        wait_for(lambda: visits(in_copy) and flow.in_mid_copy(), "a task stands in the middle of COPY")
        context = SparkContext._active_spark_context
        assert context is not None
        context.cancelAllJobs()
        wait_for(lambda: running_tasks() == 0, "Spark has given up the task, and closed its worker's input")
    finally:
        for visit in visits(in_copy):
            go_on(visit.pid)
    runner.join(timeout=240)
    return failures[0] if failures else None
