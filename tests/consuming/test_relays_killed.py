"""The Python engine into a table and into a topic: killed at each step, stopped and woken up. Counts are by id."""

from __future__ import annotations

from pathlib import Path

import pytest

from consuming.relays import Relay
from fencepost.lab.crash import standing, visits
from fencepost.local import Stack
from spark.drivers import pipeline_process, wait_for

PROOF = pytest.mark.proof
STEPS = ["advanced", *(pytest.param(step, marks=PROOF) for step in ("started", "written", "delivered"))]
COUNT = 400


@pytest.fixture(params=[pytest.param("postgres", marks=PROOF), "kafka"])
def relay(stack: Stack, tmp_path: Path, request: pytest.FixtureRequest) -> Relay:
    return Relay(stack, tmp_path, sink=request.param)


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_exactly_once_neither_loses_nor_doubles(relay: Relay, step: str, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    relay.produce(range(COUNT))
    spec = relay.declare()
    with pipeline_process(spec, "--once", "--crash", step, "1", "kill", str(witness)) as driver:
        assert driver.ended() == -9, driver.told()
    assert len(visits(witness)) == 1
    assert relay.lost(COUNT) > 0  # it was in the middle of it
    relay.run()
    assert (relay.lost(COUNT), relay.doubled()) == (0, 0)


@pytest.mark.parametrize(
    ("guarantee", "step", "loses", "doubles"),
    [
        ("at-most-once", "advanced", True, False),
        ("at-least-once", "written", False, True),
    ],
)
@PROOF
def test_the_weaker_words_are_seen_to_lose_and_to_double(
    relay: Relay, guarantee: str, step: str, loses: bool, doubles: bool, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    relay.produce(range(COUNT))
    spec = relay.declare(guarantee=guarantee)
    with pipeline_process(spec, "--once", "--crash", step, "1", "kill", str(witness)) as driver:
        assert driver.ended() == -9, driver.told()
    relay.run(guarantee=guarantee)
    assert (relay.lost(COUNT) > 0, relay.doubled() > 0) == (loses, doubles)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "step", [pytest.param("started", marks=PROOF), pytest.param("written", marks=PROOF), "advanced"]
)
def test_a_member_that_stands_still_is_replaced_and_fenced_when_it_wakes(
    relay: Relay, step: str, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    relay.produce(range(COUNT))
    spec = relay.declare()
    with pipeline_process(spec, "--crash", step, "1", "stop", str(witness)) as zombie:
        zombie.wait_until(lambda: standing(witness), "it stands still in the middle of a batch")
        with pipeline_process(spec) as successor:
            successor.wait_until(lambda: relay.lost(COUNT) == 0, "the successor was given everything")
            relay.produce(range(COUNT, COUNT + 100))
            zombie.go_on()
            wait_for(lambda: relay.lost(COUNT + 100) == 0, "both go on")
            assert zombie.running, zombie.told()
        zombie.wait_until(lambda: relay.lost(COUNT + 100) == 0, "all is there")
    assert (relay.lost(COUNT + 100), relay.doubled()) == (0, 0)
