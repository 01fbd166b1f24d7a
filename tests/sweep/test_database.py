"""PostgreSQL itself is killed with -9 under a writer, and comes back."""

from __future__ import annotations

import pytest

from fencepost.guarantee import Guarantee
from fencepost.lab.crash import CrashAction
from fencepost.local import Stack
from sweep.arena import NOTHING, Arena, Ended, Point
from sweep.work import PART, SPAN, Naive, Work


def with_the_database_killed(stack: Stack, arena: Arena, work: Work) -> Ended:
    """The writer is held at its crash point while the database dies and comes back; then it goes on."""
    writer = arena.start_and_stall(work)
    try:
        stack.postgres.kill()
    finally:
        stack.postgres.restart()
    return arena.wake(writer)


@pytest.mark.parametrize("point", [Point.IN_MID_COPY, Point.AFTER_THE_ADVANCE])
def test_rows_and_position_are_both_gone_and_the_writer_goes_on(stack: Stack, arena: Arena, point: Point) -> None:
    work = arena.work(Guarantee.EXACTLY_ONCE, crash=arena.crash(point, CrashAction.STOP))
    ended = with_the_database_killed(stack, arena, work)
    assert ended.code == 0, ended.errors
    assert ended.troubles == ["Unknown" if point is Point.AFTER_THE_ADVANCE else "Unreachable"]
    assert arena.lost_and_doubled() == NOTHING


@pytest.mark.parametrize(
    ("how", "point", "doubled"),
    [(Naive.AUTOCOMMIT, Point.IN_MID_COPY, 2 * PART), (Naive.RETRY, Point.AFTER_THE_WRITE, SPAN)],
)
def test_control_a_naive_writer_doubles(stack: Stack, arena: Arena, how: Naive, point: Point, doubled: int) -> None:
    ended = with_the_database_killed(stack, arena, arena.work(how, crash=arena.crash(point, CrashAction.STOP)))
    assert (ended.code, ended.troubles) == (0, ["OperationalError"]), ended.errors
    assert arena.lost_and_doubled() == (0, doubled)
