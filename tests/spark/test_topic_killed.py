"""Drivers into a topic that die or stand still at every step, and those who come after them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fencepost.lab.crash import standing, visits
from fencepost.local import Stack
from spark.drivers import pipeline_process, topic_control_process
from spark.topic_faults import StopOnValue
from spark.topic_flows import TopicFlow

FIRST = range(8_000)  # four thousand in each of two partitions: four record batches
LATE = 6_001  # in the last record batch but one of partition 1
PROOF = pytest.mark.proof


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> TopicFlow:
    return TopicFlow(stack, tmp_path)


STEPS = [  # of the task of partition 1, while that of partition 0 is done
    "rows",  # in the middle of its rows, before any write
    pytest.param("started", marks=PROOF),  # before any write
    pytest.param("written", marks=PROOF),  # everything is in the log, and the position is not
    pytest.param("advanced", marks=PROOF),  # everything is said, but for the commit
    pytest.param("delivered", marks=PROOF),  # committed, and the driver does not know
]


def _words(flow: TopicFlow, tmp_path: Path, step: str) -> tuple[Path, list[str], Path]:
    """The pipeline's file, and what makes its driver stand still there."""
    witness = tmp_path / f"in-{step}"
    if step == "rows":
        return flow.declare(transform=StopOnValue(LATE, witness).in_file(tmp_path)), ["--once"], witness
    return flow.declare(), ["--once", "--crash", step, "1", "stop", str(witness)], witness


@pytest.mark.timeout(900)
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_driver_without_its_checkpoint_loses_and_doubles_nothing(
    flow: TopicFlow, tmp_path: Path, step: str
) -> None:
    flow.produce(FIRST)
    spec, words, witness = _words(flow, tmp_path, step)
    done = {0: 4_000, 1: 4_000 if step == "delivered" else 0}
    with pipeline_process(spec, *words) as driver:
        driver.wait_until(lambda: visits(witness) and flow.positions() == done, f"partition 0 is done, 1 at {step}")
        assert driver.news("batch") == []
        driver.kill()
    assert len(flow.landed()) <= sum(done.values())  # what is not committed cannot be read, nor what lies behind it
    shutil.rmtree(driver.scratch)
    flow.produce(range(8_000, 8_100))
    assert flow.run().rows == 8_100 - sum(done.values())
    flow.assert_exact(8_100)


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "step", ["advanced", *(pytest.param(one, marks=PROOF) for one in ("rows", "started", "written", "delivered"))]
)
def test_a_driver_that_stood_still_while_another_took_over_is_fenced(
    flow: TopicFlow, tmp_path: Path, step: str
) -> None:
    flow.produce(FIRST)
    spec, words, witness = _words(flow, tmp_path, step)
    with pipeline_process(spec, *words) as driver:
        driver.wait_until(lambda: standing(witness), f"partition 1 at {step}")
        driver.stop()
        flow.run()
        flow.assert_exact(8_000)
        driver.go_on()
        assert driver.ended() == 4, driver.told()
        assert [told["error"] for told in driver.news("failed")] == ["Fenced"]
    flow.assert_exact(8_000)
    flow.produce(range(8_000, 8_100))
    assert flow.run().rows == 100
    flow.assert_exact(8_100)


@PROOF
@pytest.mark.timeout(900)
def test_control_the_sink_of_spark_doubles_what_a_killed_driver_had_written(flow: TopicFlow, tmp_path: Path) -> None:
    flow.produce(FIRST)
    witness = tmp_path / "in-write"
    settings = {
        **flow.kafka,
        "topic": flow.name,
        "target": flow.target,
        "checkpoint": str(tmp_path / "checkpoint"),
        "stop_on": LATE,
        "witness": str(witness),
    }
    with topic_control_process(tmp_path, settings) as driver:
        driver.wait_until(lambda: visits(witness) and flow.landed_in(0) == 4_000, "partition 0 is done, 1 under way")
        driver.kill()
    with topic_control_process(tmp_path, settings) as driver:
        assert driver.ended() == 0, driver.told()
    found = flow.comparison()
    assert found.lost == 0
    assert found.duplicated >= 4_000  # with its checkpoint, and all its settings


@PROOF
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("guarantee", "step", "lost", "doubled"),
    [("at-least-once", "written", 0, 4_000), ("at-most-once", "advanced", 4_000, 0)],
)
def test_control_the_other_guarantees_double_or_lose(
    flow: TopicFlow, tmp_path: Path, guarantee: str, step: str, lost: int, doubled: int
) -> None:
    flow.produce(FIRST)
    witness = tmp_path / "witness"
    spec = flow.declare(guarantee=guarantee)
    with pipeline_process(spec, "--once", "--crash", step, "1", "stop", str(witness)) as driver:
        driver.wait_until(
            lambda: visits(witness) and flow.positions()[0] == flow.landed_in(0) == 4_000, "partition 0 is done"
        )
        driver.kill()
    flow.run(guarantee=guarantee)
    found = flow.comparison()
    assert (found.lost, found.duplicated) == (lost, doubled)
