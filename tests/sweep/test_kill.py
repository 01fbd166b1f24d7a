"""kill -9 at every step under every guarantee; then a successor takes over and finishes."""

from __future__ import annotations

import signal

import pytest

from fencepost.audit.compare import Verdict
from fencepost.guarantee import Guarantee
from fencepost.lab.crash import CrashAction
from sweep.arena import AMISS, DOUBLED, EXACTLY_ONCE_IN_THE_GATE, NOTHING, Arena, Point
from sweep.work import PART, Naive


@pytest.mark.parametrize("point", Point)
@pytest.mark.parametrize("guarantee", EXACTLY_ONCE_IN_THE_GATE)
def test_a_killed_writer_leaves_what_its_guarantee_allows(arena: Arena, guarantee: Guarantee, point: Point) -> None:
    killed = arena.start(arena.work(guarantee, crash=arena.crash(point, CrashAction.KILL)))
    assert arena.end(killed).code == -signal.SIGKILL
    assert arena.acted() == [killed.pid]
    successor = arena.run(arena.work(guarantee))
    assert successor.code == 0, successor.errors
    assert arena.lost_and_doubled() == AMISS.get((guarantee, point), NOTHING)
    assert arena.compared().verdict(guarantee) is Verdict.HOLDS


@pytest.mark.parametrize(
    ("how", "point", "expected"),
    [
        (Naive.AUTOCOMMIT, Point.IN_MID_COPY, (0, 2 * PART)),
        (Naive.RETRY, Point.AFTER_THE_WRITE, DOUBLED),
        (Naive.RETRY, Point.IN_MID_COPY, NOTHING),
    ],
)
def test_control_a_naive_writer_doubles(arena: Arena, how: Naive, point: Point, expected: tuple[int, int]) -> None:
    killed = arena.start(arena.work(how, crash=arena.crash(point, CrashAction.KILL)))
    assert arena.end(killed).code == -signal.SIGKILL
    assert arena.acted() == [killed.pid]
    assert arena.run(arena.work(how)).code == 0
    assert arena.lost_and_doubled() == expected
