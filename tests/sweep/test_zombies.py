"""A writer that is stopped at a step, replaced while it sleeps, and woken up when its successor has finished."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from threading import Barrier, Thread
from uuid import uuid4

import psycopg
import pytest

from fencepost.audit.compare import Verdict
from fencepost.errors import Fenced
from fencepost.guarantee import Guarantee
from fencepost.lab.crash import CrashAction
from fencepost.model import Tenure
from fencepost.sinks.postgres import PostgresStore
from fencepost.sinks.postgres.connection import writer_name
from support.gate_cases import in_the_gate
from sweep.arena import AMISS, DOUBLED, EXACTLY_ONCE_IN_THE_GATE, NOTHING, PATIENCE, Arena, Point
from sweep.work import ORDERS, SPAN, Naive


@pytest.mark.parametrize("point", in_the_gate(Point, Point.IN_MID_COPY, Point.AFTER_THE_ADVANCE))
@pytest.mark.parametrize("guarantee", EXACTLY_ONCE_IN_THE_GATE)
def test_a_zombie_neither_blocks_its_successor_nor_writes_behind_its_back(
    arena: Arena, guarantee: Guarantee, point: Point
) -> None:
    zombie = arena.start_and_stall(arena.work(guarantee, crash=arena.crash(point, CrashAction.STOP)))
    successor = arena.run(arena.work(guarantee))
    assert successor.code == 0, successor.errors
    assert successor.troubles == []
    woken = arena.wake(zombie)
    assert woken.code == Fenced.exit_code, woken.errors
    assert arena.lost_and_doubled() == AMISS.get((guarantee, point), NOTHING)
    assert arena.compared().verdict(guarantee) is Verdict.HOLDS


@pytest.mark.parametrize(
    "point", in_the_gate([Point.BEFORE_THE_FIRST_ROW, Point.AFTER_THE_WRITE], Point.AFTER_THE_WRITE)
)
def test_control_a_naive_zombie_doubles(arena: Arena, point: Point) -> None:
    zombie = arena.start_and_stall(arena.work(Naive.RETRY, crash=arena.crash(point, CrashAction.STOP)))
    assert arena.run(arena.work(Naive.RETRY)).code == 0
    assert arena.wake(zombie).code == 0
    assert arena.lost_and_doubled() == (0, 2 * SPAN)


@pytest.mark.parametrize(
    ("guarantee", "amiss"),
    in_the_gate(
        [
            (Guarantee.AT_MOST_ONCE, NOTHING),
            (Guarantee.AT_LEAST_ONCE, DOUBLED),  # its rows go in before its advance is refused
            (Guarantee.EXACTLY_ONCE, NOTHING),
        ],
        (Guarantee.AT_LEAST_ONCE, DOUBLED),
    ),
)
def test_where_no_position_has_moved_yet_the_owners_token_alone_tells_them_apart(
    arena: Arena, guarantee: Guarantee, amiss: tuple[int, int]
) -> None:
    """Both stand before their first row: the takeover found no writer to end."""
    crash = replace(arena.crash(Point.BEFORE_THE_FIRST_ROW, CrashAction.STOP), time=1)
    zombie = arena.start_and_stall(arena.work(guarantee, crash=crash))
    successor = arena.start(arena.work(guarantee, crash=replace(crash, witness=arena.witness.with_suffix(".2"))))
    arena.await_stopped(successor)
    assert arena.wake(zombie).code == Fenced.exit_code
    finished = arena.wake(successor)
    assert (finished.code, finished.troubles) == (0, []), finished.errors
    assert arena.lost_and_doubled() == amiss


def test_a_zombie_that_wakes_up_does_not_disturb_its_successor(arena: Arena) -> None:
    guarantee = Guarantee.EXACTLY_ONCE
    zombie = arena.start_and_stall(arena.work(guarantee, crash=arena.crash(Point.AFTER_THE_COMMIT, CrashAction.STOP)))
    crash = arena.crash(Point.AFTER_THE_ADVANCE, CrashAction.STOP)
    successor = arena.start(
        arena.work(guarantee, crash=replace(crash, witness=arena.witness.with_suffix(".2"), time=1))
    )
    arena.await_stopped(successor)
    assert arena.wake(zombie).code == Fenced.exit_code
    finished = arena.wake(successor)
    assert (finished.code, finished.troubles) == (0, [])
    assert arena.lost_and_doubled() == NOTHING


def test_takeovers_at_once_do_not_stumble_over_writers_that_another_has_ended(arena: Arena) -> None:
    stores = [PostgresStore(arena.settings) for _ in range(3)]
    owner_of(stores[0])  # the tables are there, and the connections too
    owners: list[Tenure] = []

    def take_over(store: PostgresStore, start: Barrier) -> None:
        start.wait(PATIENCE)
        owners.append(owner_of(store))

    for _ in range(10):
        with ExitStack() as stack:
            for _writer in range(2):
                name = writer_name(arena.settings.pipeline, arena.settings.schema)
                stack.enter_context(closing(psycopg.connect(arena.dsn, application_name=name)))
            start = Barrier(len(stores))
            racers = [Thread(target=take_over, args=(store, start)) for store in stores]
            for racer in racers:
                racer.start()
            for racer in racers:
                racer.join(PATIENCE)
    assert len(owners) == 10 * len(stores)
    assert len({owner.epoch for owner in owners}) == len(owners)
    for store in stores:
        store.close()


def owner_of(store: PostgresStore) -> Tenure:
    return store.take_over(store._settings.pipeline, uuid4(), {ORDERS: 0}, {})
