"""Streams that keep state, into Delta and Iceberg: rows and number are one commit, whatever dies or stands still."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from typer.testing import CliRunner

from fencepost.admin.plan import plan_pipeline
from fencepost.admin.positions import propose
from fencepost.admin.status import pipeline_status
from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.request import of_pipeline
from fencepost.cli.app import app
from fencepost.engines.listener import Waiting
from fencepost.engines.spark.frames import FrameWriter
from fencepost.errors import CheckpointMismatch, Fenced, PositionLost, Usage
from fencepost.lab.crash import Crash, CrashAction, CrashPoint, standing, visits
from fencepost.local import Stack
from fencepost.model import Step
from fencepost.run.pipeline import Pipeline
from fencepost.spec import load
from spark.drivers import pipeline_process
from spark.state_lakes import DeltaFirsts, DeltaUpdated, DeltaWindows, IcebergFirsts, IcebergUpdated, IcebergWindows
from spark.streams import spread

pytestmark = pytest.mark.timeout(900)
Windows = DeltaWindows | IcebergWindows


def of(delta: type, iceberg: type, gate: bool = False) -> pytest.MarkDecorator:
    """All of the one before all of the other: each needs a JVM with other jars."""
    first = pytest.param(delta, id="delta", marks=[] if gate else [pytest.mark.proof])
    return pytest.mark.parametrize(
        "make", [first, pytest.param(iceberg, id="iceberg", marks=pytest.mark.proof)], scope="module"
    )


BOTH = of(DeltaWindows, IcebergWindows)


@pytest.fixture
def flow(make: type[Windows], stack: Stack, tmp_path: Path) -> Windows:
    return make(stack, tmp_path)


@of(DeltaWindows, IcebergWindows, gate=True)
def test_windows_are_those_of_the_model_over_several_runs(flow: Windows) -> None:
    flow.send(spread(range(100)))
    run = flow.run()
    assert flow.assert_modelled() == run.rows > 10
    assert run.batches()[-1].records == 0  # without records, because the watermark moved
    first = flow.last()
    flow.send(spread(range(100, 200)))
    assert flow.run().rows
    assert flow.last()[0] > first[0]
    assert flow.assert_modelled() > run.rows


@of(DeltaUpdated, IcebergUpdated)
def test_a_window_that_grows_has_one_row_and_is_updated(flow: Windows) -> None:
    flow.send(spread(range(100)))
    flow.run()
    open_ = flow.assert_modelled()
    flow.send(spread(range(100, 200)))
    flow.run()
    assert flow.assert_modelled() > open_ > 10


@of(DeltaFirsts, IcebergFirsts)
def test_the_first_of_a_key_lands_and_the_next_one_when_it_is_forgotten(flow: Windows) -> None:
    """Many batches have records and no row, and move the number all the same."""
    for begin in range(0, 300, 100):
        flow.send(spread(range(begin, begin + 100), users=20))
        flow.run()
        assert flow.assert_modelled() > 20


NOTED = """
    from spark.state_lakes import noting

    named = sums.select(f.col("window.start").alias("start"), "user", "n", "v")
    return named.mapInArrow(noting({witness!r}), named.schema)
"""
PARTS = 4  # of the state


def noting(flow: Windows, witness: Path) -> str:
    """Code whose rows leave a line for each time that they are made, in the tasks that write the state."""
    return flow.code.rpartition("    return")[0] + NOTED.lstrip("\n").format(witness=str(witness))


def made(witness: Path) -> int:
    """How often, of each part."""
    return len(witness.read_text().splitlines()) // PARTS


@of(DeltaUpdated, IcebergUpdated)
def test_a_batch_is_run_once_however_often_its_rows_are_read(flow: Windows) -> None:
    """A MERGE reads them several times, and each time would write the state again."""
    witness = flow.folder / "read"
    flow.send(spread(range(100)))
    flow.run(code=noting(flow, witness))
    assert flow.assert_modelled() > 10
    assert made(witness) == flow.last()[0] + 1


# -- drivers that die or stand still

STEPS = ("started", "written", "advanced", "delivered")
BATCHES = {"records": 2, "none": 4}  # which batch of the run: the fourth has no records, and emits rows
AT = pytest.mark.parametrize(
    ("step", "time"),
    [pytest.param(step, time, id=f"{step}-{kind}") for step in STEPS for kind, time in BATCHES.items()],
)


def crash(step: str, time: int, witness: Path) -> list[str]:
    return ["--once", "--crash", step, "0", "stop", str(witness), "--time", str(time)]


@BOTH
@AT
def test_killed_at_a_step_the_rows_are_those_of_the_model(flow: Windows, step: str, time: int) -> None:
    flow.send(spread(range(100)))
    witness = flow.folder / "witness"
    with pipeline_process(flow.declare(), *crash(step, time, witness)) as driver:
        driver.wait_until(lambda: standing(witness), "it stands at the step")
        driver.kill()
    landed = time if step == "delivered" else time - 1
    assert flow.last()[0] == landed - 1
    flow.assert_modelled()
    batches = flow.run().batches()
    assert [batch.number for batch in batches] == list(range(landed, flow.last()[0] + 1))  # nothing is run again
    assert flow.assert_modelled() > 10
    flow.send(spread(range(100, 200)))
    flow.run()
    assert flow.assert_modelled() > 20


@BOTH
@AT
def test_a_driver_that_stood_still_is_fenced_and_spoils_no_state(flow: Windows, step: str, time: int) -> None:
    flow.send(spread(range(100)))
    witness = flow.folder / "witness"
    with pipeline_process(flow.declare(), *crash(step, time, witness)) as zombie:
        zombie.wait_until(lambda: visits(witness) and standing(witness), "it stands at the step")
        zombie.stop()
        flow.run()
        flow.assert_modelled()
        flow.send(spread(range(100, 150)))
        zombie.go_on()
        if (step, time) == ("delivered", 4):
            assert zombie.ended() == 0, zombie.told()  # it had landed all that there was
        else:
            assert zombie.ended() == 4, zombie.told()
            assert [told["error"] for told in zombie.news("failed")] == ["Fenced"]
    flow.assert_modelled()
    flow.run()
    flow.send(spread(range(150, 200)))
    flow.run()
    assert flow.assert_modelled() > 20


@BOTH
def test_who_is_replaced_between_the_compare_and_the_commit_lands_nothing(
    flow: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _, name = flow.WRITES.rpartition(".")
    real = getattr(__import__(module, fromlist=[name]), name)
    taken: list[int] = []

    def late(*arguments: Any, **more: Any) -> Any:
        if not taken:
            taken.append(flow.last()[0])
            flow.take_over()
        return real(*arguments, **more)

    monkeypatch.setattr(flow.WRITES, late)
    flow.send(spread(range(100)))
    with pytest.raises(Fenced):
        flow.run()
    assert taken == [flow.last()[0]]
    flow.assert_modelled()
    flow.run()
    assert flow.assert_modelled() > 10


@BOTH
@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_the_other_guarantees_double_or_lose_a_batch_and_keep_the_state(flow: Windows, guarantee: str) -> None:
    flow.send(spread(range(200)))
    step = Step.WRITTEN if guarantee == "at-least-once" else Step.ADVANCED
    fails = CrashPoint(step, flow.partition(1), CrashAction.FAIL, flow.folder / "witness", time=4)
    with pytest.raises(Crash):
        flow.run(see=fails, guarantee=guarantee)
    flow.run(guarantee=guarantee)
    flow.send(spread(range(200, 300)))
    flow.run(guarantee=guarantee)
    found, expected = Counter(flow.rows()), Counter(flow.expected())
    if guarantee == "at-least-once":
        assert set(found) == set(expected)
        assert 0 < sum((found - expected).values()) < len(expected)
    else:
        assert not found - expected
        assert 0 < sum((expected - found).values()) < len(expected)


# -- what does not fit, and the way out

ANEW = "build the state anew, into an empty table: fencepost state rebuild --to earliest (docs/state.md)"


def rebuilt(flow: Windows) -> None:
    command = ["state", "rebuild", "--to", "earliest", "--yes", "--spec", str(flow.declare())]
    full = CliRunner().invoke(app, command)
    assert isinstance(full.exception, PositionLost), full.output
    assert "holds rows" in full.exception.message
    flow.empty()
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, (told.output, told.exception)


@BOTH
def test_an_old_checkpoint_is_refused_and_nothing_moves_until_the_state_is_built_anew(flow: Windows) -> None:
    flow.send(spread(range(100)))
    flow.run()
    early = shutil.copytree(flow.root, flow.folder / "early")
    flow.send(spread(range(100, 200)))
    flow.run()
    flow.assert_modelled()
    (number, folder), before, old = flow.last(), flow.stored_batches(), flow.rows()
    shutil.rmtree(flow.root)
    shutil.copytree(early, flow.root)
    next(flow.root.iterdir()).rename(flow.root / folder)  # of the same name, even
    said = rf"is {number} of stream .* ends with batch \d+"
    for look in (lambda: plan_pipeline(load(flow.declare()), offline=False), flow.run):
        with pytest.raises(CheckpointMismatch, match=said) as refused:
            look()
        assert ANEW in refused.value.remedy
    assert (flow.stored_batches(), flow.rows()) == (before, old)
    rebuilt(flow)
    assert flow.stream() is None
    flow.run()
    assert flow.assert_modelled() > 10
    flow.send(spread(range(200, 250)))
    flow.run()
    flow.assert_modelled()


@BOTH
def test_a_table_that_went_back_is_refused_until_the_state_is_built_anew(flow: Windows) -> None:
    flow.send(spread(range(100)))
    flow.run()
    flow.send(spread(range(100, 200)))
    flow.run()
    flow.go_back()
    for look in (lambda: plan_pipeline(load(flow.declare()), offline=False), flow.run):
        with pytest.raises(PositionLost, match="the rows that are there now") as lost:
            look()
        assert lost.value.remedy == ANEW
    rebuilt(flow)
    flow.run()
    assert flow.assert_modelled() > 10


@BOTH
def test_a_state_does_not_begin_over_a_table_with_rows(flow: Windows) -> None:
    flow.send(spread(range(100)))
    flow.run()
    other = type(flow)(flow.stack, flow.folder)
    other.send(spread(range(10)))
    options = {"path": flow.path} if isinstance(flow, DeltaWindows) else {"table": f"db.{flow.name}"}
    before = flow.stored_batches()
    with pytest.raises(PositionLost, match="holds rows") as lost:
        other.run(options=options)
    assert lost.value.remedy == ANEW
    assert flow.stored_batches() == before


# -- reports


@BOTH
def test_every_report_knows_the_stream(flow: Windows) -> None:
    flow.send(spread(range(100)))
    spec = load(flow.declare())
    before = plan_pipeline(spec, offline=False)
    assert (before.waiting, before.target_exists) == (100, False)
    run = flow.run()
    status = pipeline_status(spec)
    assert (status.rows, status.lag, status.last_batch is not None) == (run.rows, 0, True)
    assert (plan := plan_pipeline(spec, offline=False)).waiting == 0
    assert "keeps state" in plan.path_why
    found = audit(of_pipeline(spec))
    assert (found.verdict, found.hops[1].landed) == (Verdict.PARTLY, run.rows)  # rows know no record
    with pytest.raises(Usage, match="keeps state, which belongs to the positions"):
        propose(spec, "earliest")


@of(DeltaWindows, IcebergWindows)
def test_a_term_is_renewed_in_time(flow: Windows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the ledger forgets positions that nobody stores again: the state goes along."""
    kind: Any = type(load(flow.declare()).sink.kind)
    monkeypatch.setattr(kind, "expires_after", lambda *_: 60.0, raising=False)
    flow.send(spread(range(60)))
    with flow.running(batch={"records": 40, "every": "1s"}) as running:
        running.wait_until(flow.rows, "rows are there")
        first = flow.last()
        running.wait_until(lambda: len({one.name for one in flow.root.iterdir()}) > 1, "there is another folder")
        flow.send(spread(range(60, 120)))
        running.wait_until(lambda: flow.last()[0] > first[0] + 1, "it goes on")
        assert flow.last()[1] != first[1]
    assert not [one for one in running.news if isinstance(one, Waiting)]
    flow.run()
    flow.assert_modelled()


# -- what is held, lost and added


@BOTH
def test_partitions_that_are_added_are_read_from_their_start(flow: Windows) -> None:
    flow.send(spread(range(100)))
    flow.run()
    flow.add_partitions(3)
    flow.send(spread(range(100, 200)))
    flow.run()
    assert flow.assert_modelled() > 20
    assert {at for at, end in flow.positions().items() if end} == {0, 1, 2}


@of(DeltaUpdated, IcebergUpdated)
def test_rows_that_are_lost_with_an_executor_are_missed_and_their_batch_is_run_again(
    flow: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not made again from the plan, which would write the state of the same batch a second time."""
    witness, lost = flow.folder / "read", list[str]()
    real = FrameWriter.carry

    def lossy(self: FrameWriter, rows: Any, *more: Any, **parts: Any) -> Any:
        if not lost and rows is not None:
            lost.extend(_lose_what_is_held())
        return real(self, rows, *more, **parts)

    monkeypatch.setattr(FrameWriter, "carry", lossy)
    flow.send(spread(range(100)))
    run = flow.run(code=noting(flow, witness))
    assert lost
    (waited,) = [told for told in run.news if isinstance(told, Waiting)]
    assert "Spark lost rows of the batch" in waited.trouble
    assert flow.assert_modelled() > 10
    assert made(witness) == flow.last()[0] + 2


def _held() -> list[Any]:
    context = SparkContext._active_spark_context
    assert context is not None
    return [one for one in context._jsc.sc().getRDDStorageInfo() if one.name() == "MapPartitionsRDD"]


def _lose_what_is_held() -> list[str]:
    context = SparkContext._active_spark_context
    assert context is not None
    blocks = context._jsc.sc().env().blockManager().master()
    ids = [one.id() for one in _held()]
    for id_ in ids:
        blocks.removeRdd(id_, True)
    return [str(id_) for id_ in ids]


@of(DeltaUpdated, IcebergUpdated)
def test_nothing_is_held_of_a_batch_that_has_landed(flow: Windows) -> None:
    flow.send(spread(range(100)))
    held: list[int] = []
    Pipeline(flow.declare(), listen=lambda _: held.append(len(_held()))).run(once=True)
    assert set(held) == {0}
    assert len(held) > 3


LATER = """
    sums = sums.withColumn("until", f.col("window.end"))
    return sums.select(f.col("window.start").alias("start"), "user", "n", "v", "until")
"""


@BOTH
def test_a_column_that_is_added_is_one_of_the_table_s_own(flow: Windows) -> None:
    """Spark marks columns of event time, and a table that kept the mark would give it to whoever reads it."""
    flow.send(spread(range(100)))
    flow.run()
    flow.send(spread(range(100, 200)))
    code = flow.code.rpartition("    return")[0] + LATER.lstrip("\n")
    flow.run(code=code, options={"schema": "evolve"})
    assert flow.assert_modelled() > 20
    if isinstance(flow, DeltaWindows):
        assert not [one for one in flow.table().schema().fields if one.metadata]
    assert {None} < set(flow.landed("until"))
