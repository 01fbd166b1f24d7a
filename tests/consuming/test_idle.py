"""More members than partitions: one that is given none and should end does, as soon as nothing is left for it."""

from __future__ import annotations

from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest

from consuming.groups import PATIENCE, Group
from consuming.members import at_work, numbers
from consuming.relays import QUICK
from fencepost.engines.python.consumer import Consumption
from fencepost.engines.python.events import Event
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import wait_until
from fencepost.kafka.groups import describe_group
from fencepost.local import Stack
from fencepost.run.consume import run_handler
from fencepost.run.pipeline import Pipeline
from spark.flows import Flow


def joined(group: Group, members: int) -> bool:
    return wait_until(lambda: len(describe_group(group.cluster, group.name).members) == members, PATIENCE)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="cooperative-sticky"),
        pytest.param({"group.protocol": "consumer"}, id="KIP-848", marks=pytest.mark.proof),
    ],
)
def test_a_member_without_partitions_ends_when_the_group_has_done_what_was_there(
    stack: Stack, tmp_path: Path, more: dict[str, str]
) -> None:
    group = Group(stack, tmp_path, partitions=1)
    at_it, go_on, seen = Flag(), Flag(), list[int]()
    group.produce(range(20))

    def slowly(events: list[Event]) -> None:
        at_it.set()
        go_on.wait(PATIENCE)
        seen.extend(numbers(events))

    settings = ConsumerSettings({**group.kafka, **more}, group.name, group.name, Guarantee.AT_LEAST_ONCE)
    idle = Thread(target=run_handler, args=(Consumption(settings, slowly), True), daemon=True)
    with at_work(Consumption(settings, slowly)):
        assert at_it.wait(PATIENCE)
        idle.start()
        assert joined(group, 2)
        assert not wait_until(lambda: not idle.is_alive(), 4)  # what was there is not done yet
        go_on.set()
        assert wait_until(lambda: not idle.is_alive(), PATIENCE)
        assert joined(group, 1)
    assert sorted(seen) == list(range(20))


def test_a_second_run_of_a_pipeline_without_partitions_ends_too(stack: Stack, tmp_path: Path) -> None:
    flow = Flow(stack, tmp_path, partitions=1)
    flow.kafka |= QUICK
    parts: dict[str, Any] = {"engine": "python", "transform": None}
    flow.produce(range(50))
    with flow.running(**parts) as first:
        first.wait_until(lambda: len(flow.landed()) == 50, "the first one carries")
        ended: list[int] = []
        second = Thread(target=lambda: ended.append(Pipeline(flow.declare(**parts)).run(once=True).rows), daemon=True)
        second.start()
        assert wait_until(lambda: not second.is_alive(), PATIENCE)
        assert ended == [0]
        flow.produce(range(50, 60))
        first.wait_until(lambda: len(flow.landed()) == 60, "the first one goes on")
    flow.assert_exact(60)
