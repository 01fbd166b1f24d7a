"""Streams of one's own that die or stand still at a step, and go on with or without their checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fencepost.lab.crash import standing, visits
from fencepost.local import Stack
from spark.drivers import own_process
from spark.own import OwnFlow

STEPS = ("started", "written", "advanced", "delivered")


@pytest.fixture
def own(stack: Stack, tmp_path: Path) -> OwnFlow:
    return OwnFlow(stack, tmp_path)


def _killed_at(own: OwnFlow, step: str, **parts: object) -> None:
    """All of it, as soon as partition 1 stands at the step and partition 0 has landed."""
    witness = own.folder / f"at-{step}"
    with own_process(own.folder, own.settings(crash=[step, 1, "stop", str(witness)], **parts)) as driver:
        driver.wait_until(lambda: visits(witness) and _one_landed(own), "one has landed, the other stands")
        driver.kill()


def _one_landed(own: OwnFlow) -> bool:
    return own.landed_in(0) == 50 and own.positions()[0] == 50


def _resumed(own: OwnFlow, **parts: object) -> list[tuple[int, int]]:
    """Rows and partitions that say already, by batch."""
    with own_process(own.folder, own.settings(**parts)) as driver:
        assert driver.ended() == 0, driver.told()
        return [(batch["rows"], batch["already"]) for batch in driver.news("batch")]


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_killed_between_the_sinks_commit_and_sparks_the_replay_says_already(own: OwnFlow) -> None:
    own.produce(range(100))
    _killed_at(own, "delivered")
    assert own.positions() == {0: 50, 1: 50}
    assert not (own.checkpoint / "commits" / "0").exists()  # Spark does not know
    own.produce(range(100, 200))
    assert _resumed(own) == [(0, 2), (100, 0)]
    own.assert_exact(200)


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kept", [True, False], ids=["checkpoint", "lost"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step_with_and_without_its_checkpoint(own: OwnFlow, step: str, kept: bool) -> None:
    own.produce(range(100))
    _killed_at(own, step)
    assert own.landed_in(1) == (50 if step == "delivered" else 0)
    if not kept:
        shutil.rmtree(own.checkpoint)
    own.produce(range(100, 200))
    _resumed(own, starting=not kept)
    own.assert_exact(200)


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", STEPS)
def test_a_stream_that_stood_still_is_fenced_when_it_goes_on(own: OwnFlow, step: str) -> None:
    own.produce(range(100))
    witness = own.folder / "standing"
    with own_process(own.folder, own.settings(crash=[step, 1, "stop", str(witness)])) as zombie:
        zombie.wait_until(lambda: standing(witness) and _one_landed(own), "one has landed, the other stands")
        zombie.stop()
        other = own.folder / "another-checkpoint"
        _resumed(own, starting=True, checkpoint=str(other))
        own.produce(range(100, 200))
        _resumed(own, checkpoint=str(other))
        own.assert_exact(200)
        zombie.go_on()
        assert zombie.ended() == 4, zombie.told()
        assert [told["error"] for told in zombie.news("failed")] == ["Fenced"]
    own.assert_exact(200)


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_the_other_guarantees_allow_what_they_say(own: OwnFlow, guarantee: str) -> None:
    own.produce(range(100))
    first = {"at-least-once": "written", "at-most-once": "advanced"}[guarantee]  # the first of the two
    _killed_at(own, first, guarantee=guarantee)
    _resumed(own, guarantee=guarantee)
    found = own.comparison()
    expected = {"at-least-once": (0, 50), "at-most-once": (50, 0)}[guarantee]
    assert (found.lost, found.duplicated) == expected


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_control_the_same_job_with_jdbc_append_doubles_what_was_committed(own: OwnFlow) -> None:
    own.produce(range(100))
    own.sql(f"CREATE TABLE {own.name} (id bigint)")
    with own_process(own.folder, own.settings(jdbc=own.stack.dsn, dies=True)) as driver:
        driver.wait_until(lambda: driver.news("written") and len(own.landed()) == 100, "the batch is in the table")
        driver.kill()
    with own_process(own.folder, own.settings(jdbc=own.stack.dsn)) as driver:
        assert driver.ended() == 0, driver.told()
    found = own.comparison()
    assert (found.lost, found.duplicated) == (0, 100)
