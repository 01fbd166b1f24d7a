"""Streams that keep state, whose driver dies or stands still at a step of a batch, with records and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.lab.crash import standing, visits
from fencepost.local import Stack
from spark.drivers import pipeline_process
from spark.streams import StateFlow, spread

STEPS = ("staged", "started", "written", "advanced", "delivered")
# which batch of the run: the second has records, the fourth has none and emits rows because the watermark moved
BATCHES = {"records": 2, "none": 4}
TASKS = 4  # of one batch
GATE = ("delivered-records",)  # without records one stands still in the gate
CASES = [
    pytest.param(step, time, id=f"{step}-{kind}", marks=[] if f"{step}-{kind}" in GATE else [pytest.mark.proof])
    for step in STEPS
    for kind, time in BATCHES.items()
]


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> StateFlow:
    return StateFlow(stack, tmp_path)


def crash(step: str, time: int, witness: Path) -> list[str]:
    reached = (time - 1) * TASKS + 2 if step == "staged" else time
    return ["--once", "--crash", step, "0", "stop", str(witness), "--time", str(reached)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("step", "time"), CASES)
def test_killed_at_a_step_the_rows_are_those_of_the_model(flow: StateFlow, step: str, time: int) -> None:
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
    assert (step, time) == ("delivered", 4) or batches[-1].records == 0  # which comes without new ones
    assert flow.assert_modelled() > 10
    flow.send(spread(range(100, 200)))
    flow.run()
    assert flow.assert_modelled() > 20
    assert flow.stages() == []


ZOMBIES = [
    pytest.param(
        step, time, id=f"{step}-{kind}", marks=[] if f"{step}-{kind}" == "started-none" else [pytest.mark.proof]
    )
    for step in STEPS
    for kind, time in BATCHES.items()
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("step", "time"), ZOMBIES)
def test_a_driver_that_stood_still_is_fenced_and_spoils_no_state(flow: StateFlow, step: str, time: int) -> None:
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
