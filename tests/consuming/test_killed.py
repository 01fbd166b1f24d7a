"""Exactly once, killed or stopped at every step."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from consuming.groups import Group
from fencepost.engines.python.consumer import Consumption
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.errors import Refused
from fencepost.guarantee import Guarantee
from fencepost.lab.crash import standing, visits
from fencepost.producing.producer import Producer
from fencepost.run.consume import run_handler

EVENTS = 60
EXACTLY_ONCE = {"guarantee": "exactly-once"}
QUICK = {"session.timeout.ms": "6000", "max.poll.interval.ms": "6000"}  # so that a dead member is missed soon


def carried(group: Group, tmp_path: Path, step: str, **work: Any) -> None:
    """Killed at the second batch of partition 0 that reaches this step; run again until everything is read."""
    witness = tmp_path / "witness"
    work = {"settings": QUICK, **work}
    with group.process(**work, crash=[step, "kill", str(witness), 2]) as first:
        assert first.ended() == -9, first.log.read_text()
    assert visits(witness)[-1].acted
    with group.process(**work) as second:
        assert second.ended() == 0, second.log.read_text()


@pytest.mark.parametrize(
    "step", ["advanced", *(pytest.param(step, marks=pytest.mark.proof) for step in ("started", "written", "delivered"))]
)
def test_exactly_once_killed_at_any_step(group: Group, tmp_path: Path, step: str) -> None:
    table = _table(group)
    group.produce(range(EVENTS))
    carried(group, tmp_path, step, **EXACTLY_ONCE, dsn=group.stack.dsn, table=table)
    assert _rows(group, table) == list(range(EVENTS))


@pytest.mark.parametrize("step", [pytest.param("written", marks=pytest.mark.proof), "advanced"])
def test_exactly_once_a_zombie_that_wakes_up_after_its_successor_writes_nothing(
    group: Group, tmp_path: Path, step: str
) -> None:
    table, witness = _table(group), tmp_path / "witness"
    group.produce(range(EVENTS))
    work: dict[str, Any] = {**EXACTLY_ONCE, "dsn": group.stack.dsn, "table": table, "settings": QUICK}
    with group.process(**work, crash=[step, "stop", str(witness), 2]) as zombie:
        zombie.wait_until(lambda: standing(witness), "it stands in mid-transaction")
        with group.process(**work) as successor:
            assert successor.ended() == 0, successor.log.read_text()
        assert _rows(group, table) == list(range(EVENTS))
        zombie.wake()
        assert zombie.ended() == 0, zombie.log.read_text()
    assert _rows(group, table) == list(range(EVENTS))


@pytest.mark.proof
def test_control_a_zombie_with_an_effect_elsewhere_doubles(group: Group, tmp_path: Path) -> None:
    group.produce(range(EVENTS))
    work: dict[str, Any] = {"guarantee": "at-least-once", "commit": "sync", "settings": QUICK}
    witness = tmp_path / "witness"
    with group.process(**work, crash=["written", "stop", str(witness), 2]) as zombie:
        zombie.wait_until(lambda: standing(witness), "it has processed and not committed")
        with group.process(**work) as successor:
            assert successor.ended() == 0, successor.log.read_text()
        zombie.wake()
        zombie.ended()
    assert group.lost(EVENTS) == 0
    assert group.doubled() >= 10


def test_exactly_once_a_handler_that_fails_leaves_nothing_of_its_call(group: Group) -> None:
    table = _table(group)
    group.produce(range(10))
    failures = iter([True])

    def handle(events: Any, tx: Any) -> None:
        tx.executemany(f"INSERT INTO {table} VALUES (%s)", [(int(event.value),) for event in events])
        if next(failures, False):
            raise ConnectionError("after the first insert")

    settings = ConsumerSettings(group.kafka, group.name, group.name, Guarantee.EXACTLY_ONCE)
    done = run_handler(Consumption(settings, handle, group.stack.dsn), True)
    assert (_rows(group, table), done.rows) == (list(range(10)), 10)


def test_exactly_once_over_offsets_that_are_not_events(group: Group, tmp_path: Path) -> None:
    table = _table(group)
    transactions = iter(range(5))
    with Producer(group.name, "exactly-once", group.kafka, transactional_id=group.name) as producer:
        for number in transactions:  # each leaves a marker behind its events, and one of them is aborted
            with contextlib.suppress(ZeroDivisionError), producer.transaction():
                for one in range(number * 4, number * 4 + 4):
                    producer.send(str(one).encode(), str(one).encode())
                assert number != 2 or 1 / 0
    for _ in range(2):
        with group.process(**EXACTLY_ONCE, dsn=group.stack.dsn, table=table, batch=2, settings=QUICK) as consumer:
            assert consumer.ended() == 0, consumer.log.read_text()
    assert _rows(group, table) == [*range(8), *range(12, 20)]


def test_exactly_once_a_handler_must_leave_the_transaction_alone(group: Group) -> None:
    group.produce(range(10))
    settings = ConsumerSettings(group.kafka, group.name, group.name, Guarantee.EXACTLY_ONCE)
    with pytest.raises(Refused, match="committed or rolled back the transaction"):
        run_handler(Consumption(settings, lambda _events, tx: tx.execute("COMMIT"), group.stack.dsn), True)


def _table(group: Group) -> str:
    table = group.name.replace("-", "_")
    group.sql(f"CREATE TABLE {table} (number bigint)")
    return table


def _rows(group: Group, table: str) -> list[int]:
    return sorted(number for (number,) in group.sql(f"SELECT number FROM {table}"))
