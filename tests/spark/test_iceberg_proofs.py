"""Iceberg tables under kills, stops, lost answers and neighbours, at every step of a batch; with the controls."""

from __future__ import annotations

import multiprocessing
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from fencepost.admin.status import pipeline_status
from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.fates import Fate
from fencepost.audit.receipt import receipt
from fencepost.engines.spark.session import session_for
from fencepost.errors import FencepostError, Unknown, Unreachable
from fencepost.lab.crash import standing, visits
from fencepost.local import Stack
from fencepost.model import TopicPartition
from fencepost.sinks.iceberg import catalog
from fencepost.sinks.iceberg.demo import DEMO
from fencepost.sinks.iceberg.options import IcebergOptions
from fencepost.sinks.iceberg.table import IcebergTable, IcebergTarget
from fencepost.spec import load
from spark.drivers import pipeline_process
from spark.flows import RETRIES, SCHEMA
from spark.iceberg_flow import IcebergFlow

pytestmark = pytest.mark.timeout(1800)
FIRST = range(8_000)
MODES: Mapping[str, dict[str, Any]] = {"append": {}, "upsert": {"mode": "upsert", "key": ["id"]}}
ALL = "table => '{name}', options => map('rewrite-all', 'true')"
NEWEST = "table => '{name}', older_than => now(), retain_last => 1"
STEPS = ("started", "written", "advanced", "delivered")
EACH = pytest.mark.parametrize(("mode", "step"), [(mode, step) for mode in MODES for step in STEPS])


@pytest.fixture
def lake(stack: Stack, tmp_path: Path) -> IcebergFlow:
    return IcebergFlow(stack, tmp_path)


@pytest.mark.proof
@EACH
def test_a_driver_that_stands_still_at_a_step_is_fenced_when_it_goes_on(
    lake: IcebergFlow, tmp_path: Path, mode: str, step: str
) -> None:
    lake.produce(range(1_000))
    witness, options = tmp_path / "witness", MODES[mode]
    with pipeline_process(lake.declare(options=options), "--crash", step, "1", "stop", str(witness)) as zombie:
        zombie.wait_until(lambda: standing(witness), "it stands still")
        zombie.stop()
        assert len(lake.branches()) == (mode == "upsert" and step in ("written", "advanced"))
        assert lake.run(options=options).rows == (0 if step == "delivered" else 1_000)
        lake.assert_exact(1_000)
        assert lake.branches() == []  # the successor removed what it found
        zombie.go_on()
        assert zombie.ended() == 4, zombie.told()
    lake.assert_exact(1_000)
    assert lake.run(options=options).rows == 0
    assert lake.branches() == []  # nor is there one of the zombie's any more


@pytest.mark.proof
@EACH
def test_a_driver_killed_at_a_step_loses_and_doubles_nothing(
    lake: IcebergFlow, tmp_path: Path, mode: str, step: str
) -> None:
    lake.produce(range(1_000))
    witness, options = tmp_path / "witness", MODES[mode]
    with pipeline_process(
        lake.declare(options=options), "--once", "--crash", step, "1", "stop", str(witness)
    ) as driver:
        driver.wait_until(lambda: visits(witness), "it comes by")
        driver.kill()
    shutil.rmtree(driver.scratch)  # its checkpoint
    landed = step == "delivered"
    assert (len(lake.landed()), set(lake.positions().values())) == ((1_000, {500}) if landed else (0, {0}))
    assert lake.run(options=options).rows == (0 if landed else 1_000)
    lake.assert_exact(1_000)
    assert lake.branches() == []


@pytest.mark.proof
@pytest.mark.parametrize("mode", MODES)
def test_task_attempts_that_fail_before_and_among_their_rows_leave_nothing(lake: IcebergFlow, mode: str) -> None:
    lake.produce(FIRST)
    (lake.folder / "flaky.py").write_text(
        "from pyspark import TaskContext\n"
        "def flaky(rows):\n"
        "    context = TaskContext.get()\n"
        "    attempt = context.attemptNumber() if context is not None else 9\n"
        "    late = max(rows.column('id').to_pylist(), default=0) > 6000\n"
        "    if rows.num_rows and (attempt == 0 or (attempt == 1 and late)):\n"
        "        import os; os._exit(1)\n"
        "    return rows.select(['id', '_from'])\n"
    )
    run = lake.run(transform={"arrow": "flaky.py:flaky"}, spark=RETRIES, options=MODES[mode])
    assert run.rows == 8_000
    lake.assert_exact(8_000)


@pytest.mark.proof
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("answer", ["failed", "unknown"])
def test_a_commit_whose_answer_is_lost_is_found_by_its_name(
    lake: IcebergFlow, monkeypatch: pytest.MonkeyPatch, mode: str, answer: str
) -> None:
    """`failed`: as JdbcClientPool says it, which repeats its UPDATE by itself and finds nothing to change."""
    lake.produce(range(200))
    published, lost = IcebergTable._published, list[object]()

    def lossy(self: IcebergTable, table: Any, base: Any, changed: Any) -> bool:
        landed = published(self, table, base, changed)
        if lost or lake.landed() == []:  # a takeover's
            return landed
        lost.append(changed)
        if answer == "unknown":
            raise Unknown("no answer")
        return False

    monkeypatch.setattr(IcebergTable, "_published", lossy)
    assert lake.run(options=MODES[mode]).rows == 200
    assert lost
    lake.assert_exact(200)


@pytest.mark.proof
def test_dead_letters_of_a_batch_that_is_written_again_are_there_once(
    lake: IcebergFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters come first: the batch's own commit fails after them, and everything is done again."""
    lake.produce(range(20), instead={5: b"bad", 6: b"worse"})
    commit, letters_then = IcebergTable.commit, list[int]()

    def fails_once(self: IcebergTable, pipeline: str, before: Any, after: Any, rows: Any) -> None:
        if rows is not None and not letters_then:
            letters_then.append(len(lake.letters()))
            raise Unreachable("not now")
        commit(self, pipeline, before, after, rows)

    monkeypatch.setattr(IcebergTable, "commit", fails_once)
    run = lake.run(on_error="dead_letter")
    assert (run.rows, run.dead, letters_then) == (18, 2, [2])
    assert sorted((one["partition"], one["offset"]) for one in lake.letters()) == [(0, 3), (1, 2)]
    lake.produce([20], instead={20: b"bad"})
    assert lake.run(on_error="dead_letter").dead == 1
    assert len(lake.letters()) == 3
    status = pipeline_status(load(lake.declare(on_error="dead_letter")))
    assert (status.rows, status.dead) == (18, 3)


@pytest.mark.proof
@pytest.mark.parametrize("mode", MODES)
def test_a_value_that_can_be_no_folder_is_a_bad_record(lake: IcebergFlow, mode: str) -> None:
    long = "ü" * 50  # three hundred characters in the folder's name
    lake.produce(range(6), instead={3: f'{{"id": 3, "s": "{long}"}}'.encode(), 4: b'{"id": 4}'})
    parts: dict[str, Any] = {"transform": {"sql": "SELECT id, s, _from FROM events"}, "on_error": "dead_letter"}
    run = lake.run(**parts, options={"partition_by": ["s"], **MODES[mode]})
    assert (run.dead, sorted(lake.landed())) == (1, [0, 1, 2, 4, 5])
    (letter,) = lake.letters()
    assert "can be no folder's name" in letter["_dead"]


@pytest.mark.proof
def test_commits_whose_snapshots_expired_are_not_guessed(lake: IcebergFlow) -> None:
    lake.produce(range(20))
    lake.run()
    lake.produce(range(20, 40))
    lake.run()
    spec = load(lake.declare())
    assert receipt(spec, 0, 3).fate is Fate.PROCESSED
    assert audit(spec).verdict is Verdict.HOLDS
    lake.maintain(
        f"CALL {{catalog}}.system.rewrite_data_files({ALL})", f"CALL {{catalog}}.system.expire_snapshots({NEWEST})"
    )
    assert receipt(spec, 0, 3).fate is Fate.UNKNOWN
    assert receipt(spec, 0, 3, check=True).fate is Fate.LANDED
    found = audit(spec)
    assert found.verdict is not Verdict.BROKEN, found
    assert any("on record" in one for one in found.not_checked), found
    assert pipeline_status(spec).rows == 40  # beside the positions, and these do not expire


def _take_over(options: dict[str, Any], rounds: int, barrier: Any, told: Any) -> None:
    """In a process of its own, with its own JVM; each time for another pipeline, in the same table."""
    with closing(IcebergTarget(IcebergOptions.model_validate(options), {}).open()) as store:
        store.take_over("warm-up", uuid4(), {TopicPartition("orders", 0): 0}, {})
        for number in range(rounds):
            barrier.wait(300)
            run = uuid4()
            try:
                tenure = store.take_over(f"shop{number}", run, {TopicPartition("orders", 0): 0}, {})
                told.put((number, tenure.epoch, str(run)))
            except FencepostError as error:
                told.put((number, 0, str(error)))


@pytest.mark.proof
def test_of_runs_that_take_over_at_the_same_moment_each_has_an_epoch_of_its_own(lake: IcebergFlow) -> None:
    lake.run()  # makes the table
    rounds, context = 20, multiprocessing.get_context("spawn")
    barrier, told = context.Barrier(2), context.Queue()
    racers = [context.Process(target=_take_over, args=(lake.options, rounds, barrier, told)) for _ in range(2)]
    for racer in racers:
        racer.start()
    found = [told.get(timeout=300) for _ in range(2 * rounds)]
    for racer in racers:
        racer.join(60)
    with closing(lake.store()) as store:
        for number in range(rounds):
            epochs = {epoch: run for at, epoch, run in found if at == number}
            (held,) = store.stored(f"shop{number}").values()
            assert (sorted(epochs), held.epoch, str(held.owner)) == ([1, 2], 2, epochs.get(2)), found


@pytest.mark.proof
@pytest.mark.parametrize("mode", MODES)
def test_neighbours_and_readers_beside_a_live_pipeline(lake: IcebergFlow, mode: str) -> None:
    """Foreign appends, compaction and expiry between batches; of 200 in a transaction a reader sees all or none."""
    options, over, seen = MODES[mode], Event(), Counter[int]()

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
                _foreign(lake, number)
                lake.beside(f"CALL {{catalog}}.system.rewrite_data_files({ALL})")
                running.wait_until(partial(_has, lake, 400 * (number + 1)), "it landed")
            over.set()
            reader.join(60)  # files of snapshots that it may be reading go now
            lake.beside(f"CALL {{catalog}}.system.expire_snapshots({NEWEST})")
            lake.produce(range(2_400, 2_800))
            running.wait_until(partial(_has, lake, 2_800), "it landed after the expiry")
    finally:
        over.set()
        reader.join(60)
    ids = [id_ for id_ in lake.landed() if id_ >= 0]
    assert sorted(ids) == list(range(2_800))
    assert len(lake.landed()) == 2_805
    assert seen
    assert {count % 200 for count in seen} == {0}, seen
    assert lake.branches() == []


def _has(lake: IcebergFlow, rows: int) -> bool:
    return bool(sum(id_ >= 0 for id_ in lake.landed()) == rows)


def _foreign(lake: IcebergFlow, number: int) -> None:
    """By pyiceberg, again until nobody else's commit comes in between."""
    from pyiceberg.exceptions import CommitFailedException

    while True:
        table = lake.table()
        assert table is not None
        schema: pa.Schema = table.schema().as_arrow()
        try:
            table.append(pa.Table.from_pylist([{"id": -number}], schema=schema))
        except CommitFailedException:
            continue
        return


@pytest.mark.proof
@pytest.mark.parametrize(("guarantee", "step"), [("at-least-once", "written"), ("at-most-once", "advanced")])
def test_control_a_kill_between_the_two_steps(lake: IcebergFlow, tmp_path: Path, guarantee: str, step: str) -> None:
    """At least once the batch is there twice and none is lost; at most once it is lost and none is there twice."""
    lake.produce(range(1_000))
    witness = tmp_path / "witness"
    spec = lake.declare(guarantee=guarantee)
    with pipeline_process(spec, "--once", "--crash", step, "1", "stop", str(witness)) as driver:
        driver.wait_until(lambda: visits(witness), "it comes by")
        driver.kill()
    lake.produce(range(1_000, 1_100))
    lake.run(guarantee=guarantee)
    times = 2 if guarantee == "at-least-once" else 0
    wanted = {**(dict.fromkeys(range(1_000), times) if times else {}), **dict.fromkeys(range(1_000, 1_100), 1)}
    assert Counter(lake.landed()) == wanted


@pytest.mark.proof
def test_control_iceberg_s_own_streaming_sink_doubles_everything_when_its_checkpoint_is_lost(
    lake: IcebergFlow, tmp_path: Path
) -> None:
    from pyspark.sql import functions as f

    lake.produce(range(1_000))
    catalog.make(lake.job.options)
    lake.maintain("CREATE NAMESPACE IF NOT EXISTS lake.db", "CREATE TABLE {table} (id long) USING iceberg")
    for expected in (0, 1_000):
        with session_for(load(lake.declare())) as spark:
            kafka = {"kafka.bootstrap.servers": lake.kafka["bootstrap.servers"], "subscribe": lake.name}
            records = spark.readStream.format("kafka").options(**kafka, startingOffsets="earliest").load()
            events = records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("event"))
            DEMO.drain(lake.job, events.select("event.id"), str(tmp_path / "checkpoint")).awaitTermination()
        found = lake.comparison()
        assert (found.lost, found.duplicated) == (0, expected)
        shutil.rmtree(tmp_path / "checkpoint")
