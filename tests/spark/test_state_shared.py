"""A driver stands in the middle of its tasks while another takes over, and wakes up: whose state is it afterwards?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.lab.crash import standing
from fencepost.local import Stack
from spark.drivers import pipeline_process, stateful_native_process, wait_for
from spark.streams import SUMS, Event, StateFlow, spread

ONCE = 60  # the only event of its user: no later batch touches its sum
FACTOR = 1000  # by which the successor's version of the code multiplies

# the first version, which stops at that event, once
FIRST = f"""
from pathlib import Path
from spark.stateful_native_process import stopping

def summed(events):
    return events.mapInArrow(stopping({ONCE}, {{witness!r}}), events.schema)
{SUMS}
"""
SECOND = f"""
from pyspark.sql import functions as f

def summed(events):
    return events.withColumn("v", f.col("v") * {FACTOR})
{SUMS}
"""


def first() -> list[Event]:
    """Three batches, of one window that stays open."""
    return [Event(id_, "once" if id_ == ONCE else f"u{id_ % 3}", id_ / 13) for id_ in range(120)]


def closing() -> list[Event]:
    return [Event(1_000 + id_, "last", 100.0 + id_) for id_ in range(2)]


class Rewritten(StateFlow):
    """The second batch and all that follow are the second version's."""

    code = SECOND

    def batches(self) -> Iterator[list[Event]]:
        for number, batch in enumerate(super().batches()):
            factor = FACTOR if number else 1
            yield [Event(event.id, event.user, event.at, event.v * factor) for event in batch]


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> StateFlow:
    return StateFlow(stack, tmp_path)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_state_of_a_driver_that_wakes_up_is_nobodys(stack: Stack, tmp_path: Path) -> None:
    flow = Rewritten(stack, tmp_path)
    flow.send(first())
    witness = tmp_path / "witness"
    zombies = flow.declare(code=FIRST.format(witness=str(witness)))
    with pipeline_process(zombies, "--once") as zombie:
        zombie.wait_until(lambda: standing(witness), "a task stands in the second batch")
        zombie.stop()
        assert flow.last()[0] == 0
        flow.run()
        assert flow.last()[0] >= 2
        zombie.go_on()
        assert zombie.ended() == 4, zombie.told()
    flow.send(closing())
    flow.run()
    assert flow.assert_modelled() == 4
    assert ("once", 1, FACTOR) in [row[1:] for row in flow.rows()]


def native(flow: StateFlow, **parts: Any) -> dict[str, Any]:
    named = {**flow.kafka, "topic": flow.name, "dsn": flow.stack.dsn}
    return {**named, "checkpoint": str(flow.folder / "shared"), **parts}


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_control_in_one_checkpoint_the_driver_that_wakes_up_spoils_the_state_of_the_other(flow: StateFlow) -> None:
    flow.sql(f'CREATE TABLE {flow.name} (start timestamptz, "user" text, n bigint, v bigint)')
    flow.send(first())
    witness = flow.folder / "witness"
    with stateful_native_process(flow.folder, native(flow, id=ONCE, witness=str(witness))) as zombie:
        zombie.wait_until(lambda: standing(witness), "a task stands in the second batch")
        zombie.stop()
        _drained(flow, factor=FACTOR)
        before = _contents(flow, "2.delta")
        zombie.go_on()
        assert zombie.ended() == 1, zombie.told()
        assert _contents(flow, "2.delta") != before
    flow.send(closing())
    _drained(flow, factor=FACTOR)
    (found,) = (row for row in flow.rows() if row[1] == "once")
    assert found[2:] == (1, 1)  # and not FACTOR


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_control_foreach_batch_with_jdbc_doubles_what_a_killed_driver_had_written(flow: StateFlow) -> None:
    flow.sql(f'CREATE TABLE {flow.name} (start timestamptz, "user" text, n bigint, v bigint)')
    flow.send(spread(range(100)))
    with stateful_native_process(flow.folder, native(flow, batch=2)) as driver:
        driver.wait_until(lambda: len(driver.news("written")) == 3, "the third batch is in the table")
        wait_for(flow.rows, "with rows")
        driver.kill()
    _drained(flow)
    assert Counter(Counter(flow.rows()).values()).keys() == {1, 2}


def _drained(flow: StateFlow, **parts: Any) -> None:
    with stateful_native_process(flow.folder, native(flow, **parts)) as driver:
        assert driver.ended() == 0, driver.told()


def _contents(flow: StateFlow, name: str) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (flow.folder / "shared" / "state").rglob(name)}
