"""`fencepost.consume` is stopped from another thread: it ends soon, what was done is stored, nothing is done again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event as Flag
from typing import Any

import pytest

import fencepost
from consuming.groups import Group
from consuming.members import committed, numbers


class Work:
    """A handler that notes the numbers of its events, waits when it has five, and goes on when it may."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.half_way, self.go_on = Flag(), Flag()

    def __call__(self, events: list[fencepost.Event], _tx: Any = None) -> None:
        self.seen += numbers(events)
        if len(self.seen) >= 5:
            self.half_way.set()
            assert self.go_on.wait(60)


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once", "exactly-once"])
def test_a_stop_finishes_the_batch_and_nothing_is_doubled(group: Group, guarantee: str) -> None:
    group.produce(range(20))
    first, stop = Work(), Flag()
    dsn = group.stack.dsn if guarantee == "exactly-once" else None
    member: dict[str, Any] = {
        "topic": group.name,
        "group": group.name,
        "kafka": group.kafka,
        "dsn": dsn,
        "per": "record",
    }
    with ThreadPoolExecutor() as threads:
        running = threads.submit(fencepost.consume, first, guarantee=guarantee, stop=stop, **member)
        assert first.half_way.wait(60)
        stop.set()
        first.go_on.set()
        done = running.result(20)
    assert 5 <= done.rows < 20
    if dsn is None:
        assert sum(position or 0 for position in committed(group).values()) == len(first.seen)
    second = Work()
    second.go_on.set()
    fencepost.consume(second, guarantee=guarantee, once=True, **member)
    assert sorted(first.seen + second.seen) == list(range(20))


def test_one_that_is_stopped_before_it_starts_returns_at_once(group: Group) -> None:
    group.produce(range(4))
    stop, work = Flag(), Work()
    stop.set()
    done = fencepost.consume(
        work, topic=group.name, group=group.name, guarantee="at-least-once", kafka=group.kafka, stop=stop
    )
    assert (done.rows, work.seen) == (0, [])
