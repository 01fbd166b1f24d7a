"""A run that should carry what there is, beside members that hold a part of it: dead, alive, or standing still."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag

import pytest
from confluent_kafka import Consumer

from consuming.groups import PATIENCE
from consuming.relays import Relay
from fencepost.delivery import nobody
from fencepost.engines.listener import News, NotDrained, Waiting
from fencepost.kafka.client import wait_until
from fencepost.kafka.names import group_of
from fencepost.local import Stack
from fencepost.model import Batch, Step
from fencepost.run.pipeline import Pipeline

STATIC = "group.instance.id"  # such a member keeps its partitions when it ends, until its session times out


def consumer(relay: Relay, name: str) -> Consumer:
    own = {"group.id": group_of(relay.name), STATIC: name, "partition.assignment.strategy": "cooperative-sticky"}
    return Consumer({**relay.kafka, **own})


def shared_out(relay: Relay) -> None:
    """Two members have a partition each, and are gone without a word."""
    members = [consumer(relay, name) for name in ("one", "two")]
    for each in members:
        each.subscribe([relay.name])

    def settled() -> bool:
        for each in members:
            each.poll(0.05)
        return all(len(each.assignment()) == 1 for each in members)

    assert wait_until(settled, PATIENCE)
    for each in members:
        each.close()


@pytest.fixture
def relay(stack: Stack, tmp_path: Path) -> Relay:
    relay = Relay(stack, tmp_path)
    relay.produce(range(20))
    return relay


@pytest.mark.proof  # a session lasts six seconds at least
def test_once_waits_for_what_a_dead_member_still_holds(relay: Relay) -> None:
    shared_out(relay)
    heard: list[News] = []

    summary = Pipeline(relay.declare(kafka={**relay.kafka, STATIC: "one"}), heard.append).run(once=True)

    assert summary.left is None
    assert summary.rows == 20
    (waiting,) = [news for news in heard if isinstance(news, Waiting)]
    assert waiting.trouble.startswith(f"10 offsets left in {relay.name}/")
    relay.assert_exact(20)


def command(spec: Path, *options: str) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-m", "fencepost", "run", "--once", "--spec", str(spec), *options]
    return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=PATIENCE)


@contextmanager
def held_by_one_that_stands_still(relay: Relay) -> Iterator[None]:
    """It has a partition and talks to its group, and reads nothing."""
    shared_out(relay)
    idle = consumer(relay, "two")
    idle.subscribe([relay.name])
    try:
        assert wait_until(lambda: idle.poll(0.05) is None and len(idle.assignment()) == 1, PATIENCE)
        idle.pause(idle.assignment())
        yield
    finally:
        idle.close()


@pytest.mark.proof
def test_once_says_what_nobody_carries_and_ends_with_another_code(relay: Relay) -> None:
    spec = relay.declare(kafka={**relay.kafka, STATIC: "one"})
    with held_by_one_that_stands_still(relay):
        ended = command(spec, "--format", "json")
        said = command(spec)

    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    (left,) = [line for line in lines if line["event"] == "left"]
    assert (ended.returncode, said.returncode) == (3, 3)
    assert list(left["offsets"].values()) == [10]
    assert not left["moving"]
    assert lines[-1]["left"] == left["offsets"]
    assert "not drained: 10 offsets left in" in said.stderr
    assert command(spec).returncode == 0  # as it says: with the other one ended, once more carries the rest
    relay.assert_exact(20)


@pytest.mark.proof
def test_what_another_member_carries_is_left_to_it(relay: Relay) -> None:
    """Two live members: the one that ends does not wait for all that the other one has to do."""
    spec = relay.declare(batch={"records": 1})
    relay.produce(range(20, 60))
    began, slowly = Flag(), Flag()

    def see(step: Step, batch: Batch[object]) -> None:
        began.set()
        slowly.wait(0.5)  # slow work, not a wait for anything
        nobody(step, batch)

    heard: list[News] = []
    with relay.running(see, batch={"records": 1}) as other:
        other.wait_until(began.is_set, "the other one is at it")
        Pipeline(spec, heard.append).run(once=True)
        left = [news for news in heard if isinstance(news, NotDrained)]
        slowly.set()
        other.wait_until(lambda: len(relay.landed()) == 60, "it carries its own")

    assert [each.moving for each in left] == [True]
    relay.assert_exact(60)
