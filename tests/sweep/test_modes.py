"""Upsert and dedupe under kill -9 at every step, under zombies, and under two processes with the same keys."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from fencepost.errors import Fenced
from fencepost.guarantee import Guarantee
from fencepost.lab.crash import CrashAction, CrashPoint
from fencepost.local import Stack
from fencepost.machine.process import until
from fencepost.model import Merge, Mode, Step, TopicPartition
from fencepost.sinks.postgres.connection import writer_name
from support.gate_cases import in_the_gate
from sweep.arena import AMISS, LOST, Arena, Point
from sweep.work import EVENTS, KEYS, ORDERS, SPAN, key

OTHER = TopicPartition("orders", 1)
MODES = [Mode.UPSERT, Mode.DEDUPE]
Winners = dict[int, tuple[int, int]]


@pytest.fixture
def keyed(stack: Stack, tmp_path: Path) -> Iterator[Callable[[Mode], Arena]]:
    with ExitStack() as opened:
        yield lambda mode: opened.enter_context(Arena(stack.dsn, tmp_path, Merge(mode, ("id",))))


def sweep() -> Iterator[object]:
    """Every step in every mode under every word; in the gate those that tell most, each in one of the modes."""
    telling = {
        (Mode.UPSERT, Guarantee.EXACTLY_ONCE, Point.IN_MID_COPY),
        (Mode.DEDUPE, Guarantee.EXACTLY_ONCE, Point.AFTER_THE_WRITE),
        (Mode.UPSERT, Guarantee.EXACTLY_ONCE, Point.AFTER_THE_ADVANCE),
        (Mode.DEDUPE, Guarantee.AT_LEAST_ONCE, Point.AFTER_THE_WRITE),
        (Mode.UPSERT, Guarantee.AT_MOST_ONCE, Point.AFTER_THE_ADVANCE),
    }
    for mode, guarantee, point in product(MODES, Guarantee, Point):
        marks = [] if (mode, guarantee, point) in telling else [pytest.mark.proof]
        yield pytest.param(mode, guarantee, point, marks=marks)


def expected(mode: Mode, offsets: Iterable[int], partition: TopicPartition = ORDERS, keys: int = KEYS) -> Winners:
    """The rows that must be there when the events of these offsets have come."""
    inorder = sorted(offsets, reverse=mode is Mode.DEDUPE)
    return {key(partition, offset, keys): (partition.partition, offset) for offset in inorder}


@pytest.mark.parametrize(("mode", "guarantee", "point"), list(sweep()))
def test_a_killed_writer_leaves_the_right_row_of_every_key(
    keyed: Callable[[Mode], Arena], mode: Mode, guarantee: Guarantee, point: Point
) -> None:
    """What at-least-once repeats makes no difference; what at-most-once loses is lost."""
    arena = keyed(mode)
    killed = arena.start(arena.work(guarantee, crash=arena.crash(point, CrashAction.KILL)))
    assert arena.end(killed).code == -signal.SIGKILL
    assert arena.acted() == [killed.pid]
    successor = arena.run(arena.work(guarantee))
    assert successor.code == 0, successor.errors
    lost = range(SPAN, 2 * SPAN) if AMISS.get((guarantee, point)) == LOST else ()
    assert arena.winners() == expected(mode, set(range(EVENTS)) - set(lost))


@pytest.mark.parametrize(
    "point",
    [
        Point.AFTER_THE_WRITE,
        pytest.param(Point.IN_MID_COPY, marks=pytest.mark.proof),
        pytest.param(Point.AFTER_THE_ADVANCE, marks=pytest.mark.proof),
    ],
)
def test_a_zombie_neither_blocks_its_successor_nor_writes_behind_its_back(
    keyed: Callable[[Mode], Arena], point: Point
) -> None:
    """Between its write and its commit it holds the rows that its successor needs: so its connection is ended."""
    arena = keyed(Mode.UPSERT)
    zombie = arena.start_and_stall(arena.work(Guarantee.EXACTLY_ONCE, crash=arena.crash(point, CrashAction.STOP)))
    successor = arena.run(arena.work(Guarantee.EXACTLY_ONCE))
    assert (successor.code, successor.troubles) == (0, []), successor.errors
    assert arena.wake(zombie).code == Fenced.exit_code
    assert arena.winners() == expected(Mode.UPSERT, range(EVENTS))


def test_a_member_that_is_stopped_with_merged_rows_in_its_hands_is_ended_by_its_successor(
    keyed: Callable[[Mode], Arena],
) -> None:
    """Members end only what is stuck: this one holds rows, and no position yet."""
    arena = keyed(Mode.UPSERT)
    arena.settings = replace(arena.settings, members=True)
    crash = arena.crash(Point.AFTER_THE_WRITE, CrashAction.STOP)
    zombie = arena.start_and_stall(arena.work(Guarantee.EXACTLY_ONCE, crash=crash))
    idle = (
        "SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction' AND application_name = "
        f"'{writer_name(arena.settings.pipeline, arena.settings.schema)}' "
        "AND clock_timestamp() - state_change > interval '2 seconds'"
    )
    assert until(lambda: bool(arena.sql(idle)), 20)
    successor = arena.run(arena.work(Guarantee.EXACTLY_ONCE))
    assert (successor.code, successor.troubles) == (0, []), successor.errors
    assert arena.wake(zombie).code == Fenced.exit_code
    assert arena.winners() == expected(Mode.UPSERT, range(EVENTS))


@pytest.mark.parametrize("mode", in_the_gate(MODES, Mode.UPSERT))
def test_what_a_zombie_writes_late_under_at_least_once_changes_no_row(
    keyed: Callable[[Mode], Arena], mode: Mode
) -> None:
    """It stood before its first row, so nobody could end its connection; it writes before its advance is refused."""
    arena = keyed(mode)
    crash = replace(arena.crash(Point.BEFORE_THE_FIRST_ROW, CrashAction.STOP), time=1)
    zombie = arena.start_and_stall(arena.work(Guarantee.AT_LEAST_ONCE, crash=crash))
    successor = arena.run(arena.work(Guarantee.AT_LEAST_ONCE))
    assert successor.code == 0, successor.errors
    assert arena.wake(zombie).code == Fenced.exit_code
    assert arena.winners() == expected(mode, range(EVENTS))


@pytest.mark.parametrize("mode", MODES)
def test_two_processes_with_the_same_keys_get_along(keyed: Callable[[Mode], Arena], mode: Mode) -> None:
    """Two partitions, released at once: neither hears of a deadlock or of a key that the other has just made."""
    arena, events, keys = keyed(mode), 20 * SPAN, 10 * SPAN  # half of them new, half of them there
    arena.settings = replace(arena.settings, members=True)
    rivals = []
    for partition in (ORDERS, OTHER):
        crash = CrashPoint(
            Step.STARTED, partition, CrashAction.STOP, arena.witness.with_suffix(f".{partition.partition}")
        )
        work = arena.work(Guarantee.EXACTLY_ONCE, crash=crash, partition=partition, events=events, keys=keys)
        rivals.append(arena.start(work))
    for rival in rivals:
        arena.await_stopped(rival)
    for rival in rivals:
        rival.send_signal(signal.SIGCONT)
    for rival in rivals:
        ended = arena.end(rival)
        assert (ended.code, ended.troubles) == (0, []), ended.errors
    one, other = (expected(mode, range(events), partition, keys) for partition in (ORDERS, OTHER))
    assert one.keys() == other.keys()
    assert {id_ for id_, place in arena.winners().items() if place in (one[id_], other[id_])} == one.keys()
