"""Delta tables under kills, stops, failing tasks and neighbours, at every step of a batch; with the control."""

from __future__ import annotations

import multiprocessing
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from fencepost.errors import Unreachable
from fencepost.lab.crash import standing, visits
from fencepost.local import Stack
from fencepost.sinks.delta import DeltaTarget, writing
from fencepost.testing.batches import ORDERS
from spark.drivers import Driver, pipeline_process
from spark.flows import RETRIES
from spark.lakes import LakeFlow

pytestmark = [pytest.mark.proof, pytest.mark.timeout(1800)]
FIRST = range(8_000)


@pytest.fixture
def lake(stack: Stack, tmp_path: Path) -> LakeFlow:
    return LakeFlow(stack, tmp_path)


def _before_the_commit(lake: LakeFlow, driver: Driver) -> bool:
    """Does it stand still with every file of the batch written, and no commit of them? Else it goes on."""
    if len([file for file in lake.data_files() if file.stat().st_size]) < lake.partitions:
        return False
    driver.stop()
    if lake.positions() == dict.fromkeys(range(lake.partitions), 0):
        return True
    driver.go_on()
    return False


@pytest.mark.parametrize("step", ["started", "advanced"])
def test_a_driver_killed_before_it_writes_loses_and_doubles_nothing(lake: LakeFlow, tmp_path: Path, step: str) -> None:
    lake.produce(FIRST)
    witness = tmp_path / "witness"
    with pipeline_process(lake.declare(), "--once", "--crash", step, "1", "stop", str(witness)) as driver:
        driver.wait_until(lambda: visits(witness), "it comes by")
        driver.kill()
    shutil.rmtree(driver.scratch)
    assert (lake.landed(), lake.positions()) == ([], {0: 0, 1: 0})
    assert lake.run().rows == 8_000
    lake.assert_exact(8_000)


def test_a_driver_killed_or_stopped_between_its_data_and_the_commit(lake: LakeFlow) -> None:
    """The first one is killed there; the second one stands still there, and goes on after its successor."""
    lake.produce(FIRST)
    with pipeline_process(lake.declare(), "--once") as driver:
        driver.wait_until(lambda: _before_the_commit(lake, driver), "data, and no commit")
        driver.kill()
    shutil.rmtree(driver.scratch)
    assert lake.landed() == []
    for file in lake.data_files():
        file.unlink()  # as VACUUM would
    with pipeline_process(lake.declare(), "--once") as driver:
        driver.wait_until(lambda: _before_the_commit(lake, driver), "data, and no commit")
        assert lake.run().rows == 8_000
        lake.assert_exact(8_000)
        driver.go_on()
        assert driver.ended() == 4, driver.told()
    lake.assert_exact(8_000)


@pytest.mark.parametrize("step", ["started", "advanced", "delivered"])
def test_a_driver_that_stands_still_at_a_step_is_fenced_when_it_goes_on(
    lake: LakeFlow, tmp_path: Path, step: str
) -> None:
    lake.produce(FIRST)
    witness = tmp_path / "witness"
    with pipeline_process(lake.declare(), "--crash", step, "1", "stop", str(witness)) as driver:
        driver.wait_until(lambda: standing(witness), "it stands still")
        driver.stop()
        assert lake.run().rows == (0 if step == "delivered" else 8_000)
        lake.assert_exact(8_000)
        driver.go_on()
        assert driver.ended() == 4, driver.told()
    lake.assert_exact(8_000)


def test_task_attempts_that_fail_leave_nothing(lake: LakeFlow) -> None:
    lake.produce(range(200))
    flaky = lake.folder / "flaky.py"
    flaky.write_text(
        "from pyspark import TaskContext\n"
        "def flaky(rows):\n"
        "    context = TaskContext.get()\n"
        "    if context is not None and context.attemptNumber() < 2 and rows.num_rows:\n"
        "        import os; os._exit(1)\n"
        "    return rows.select(['id', '_from'])\n"
    )
    assert lake.run(transform={"arrow": "flaky.py:flaky"}, spark=RETRIES).rows == 200
    lake.assert_exact(200)


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-most-once"])
def test_a_commit_whose_answer_is_lost_is_found_in_the_log(
    lake: LakeFlow, monkeypatch: pytest.MonkeyPatch, guarantee: str
) -> None:
    lake.produce(range(200))
    written = writing.write
    lost: list[Any] = []

    def write(*arguments: Any, **more: Any) -> None:
        written(*arguments, **more)
        if not lost:
            lost.append(arguments)
            arguments[0].sparkSession.sql("SELECT raise_error('the answer is lost')").collect()

    monkeypatch.setattr(writing, "write", write)
    assert lake.run(guarantee=guarantee).rows == 200
    assert lost
    lake.assert_exact(200)


def _take_over(path: str, barrier: Any, told: Any) -> None:
    run, store = uuid4(), DeltaTarget(path).open()
    store.stored("shop")
    barrier.wait()
    try:
        tenure = store.take_over("shop", run, {ORDERS: 0}, {})
        told.put((tenure.epoch, str(run)))
    except Unreachable as error:
        told.put((0, str(error)))


def test_of_runs_that_take_over_at_the_same_moment_each_has_an_epoch_of_its_own(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    for number in range(20):
        path = str(tmp_path / f"t{number}")
        DeltaTable.create(path, pa.schema([("id", pa.int64())]))
        barrier, told = context.Barrier(2), context.Queue()
        racers = [context.Process(target=_take_over, args=(path, barrier, told)) for _ in range(2)]
        for racer in racers:
            racer.start()
        epochs = dict(told.get(timeout=60) for _ in racers)
        for racer in racers:
            racer.join(60)
        assert sorted(epochs) == [1, 2]
        (held,) = DeltaTarget(path).open().stored("shop").values()
        assert (held.epoch, str(held.owner)) == (2, epochs[2])


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_neighbours_and_readers_beside_a_live_pipeline(lake: LakeFlow, mode: str) -> None:
    """Foreign appends and OPTIMIZE between batches; of each transaction of 200 in a partition a reader sees all."""
    options = {} if mode == "append" else {"mode": "upsert", "key": ["id"]}
    over, seen = Event(), Counter[int]()

    def read() -> None:
        while not over.is_set():
            seen[sum(id_ >= 0 for id_ in lake.landed())] += 1

    lake.produce(range(400))
    lake.run(options=options)
    reader = Thread(target=read)
    reader.start()
    try:
        with lake.running(options=options, batch={"every": "100ms"}) as running:
            for number in range(1, 6):
                lake.produce_in_transaction(range(400 * number, 400 * (number + 1)), commit=True)
                write_deltalake(lake.path, _foreign(lake, number), mode="append")
                lake.table().optimize.compact()
                running.wait_until(partial(_has, lake, 400 * (number + 1)), "it landed")
    finally:
        over.set()
        reader.join(60)
    ids = [id_ for id_ in lake.landed() if id_ >= 0]
    assert sorted(ids) == list(range(2_400))
    assert len(lake.landed()) == 2_405
    assert {count % 200 for count in seen} == {0}, seen


def _has(lake: LakeFlow, rows: int) -> bool:
    return bool(sum(id_ >= 0 for id_ in lake.landed()) == rows)


def _foreign(lake: LakeFlow, number: int) -> pa.Table:
    schema = pa.schema(lake.table().schema().to_arrow())
    return pa.Table.from_pylist([{"id": -number}], schema=schema)


@pytest.mark.parametrize(
    ("guarantee", "step", "times"), [("at-least-once", "written", 2), ("at-most-once", "advanced", 0)]
)
def test_control_the_other_guarantees_double_or_lose(
    lake: LakeFlow, tmp_path: Path, guarantee: str, step: str, times: int
) -> None:
    lake.produce(FIRST)
    witness = tmp_path / "witness"
    spec = lake.declare(guarantee=guarantee)
    with pipeline_process(spec, "--once", "--crash", step, "1", "stop", str(witness)) as driver:
        driver.wait_until(lambda: visits(witness), "it comes by")
        driver.kill()
    lake.produce(range(8_000, 8_100))
    lake.run(guarantee=guarantee)
    counted = Counter(lake.landed())
    assert counted == Counter({**dict.fromkeys(FIRST, times), **dict.fromkeys(range(8_000, 8_100), 1)}) + Counter()
