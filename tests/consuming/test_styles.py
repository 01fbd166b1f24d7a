"""Every commit style reads everything once when nothing goes wrong, and gives what it says when something does."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from consuming.groups import Group
from consuming.members import committed, numbers
from fencepost.engines.python.commits import Commit
from fencepost.engines.python.consumer import Consumption
from fencepost.engines.python.events import Event
from fencepost.engines.python.handler import HandlerFailed
from fencepost.engines.python.settings import ConsumerSettings, Per
from fencepost.errors import PositionLost, RecordsGone, UnsupportedGuarantee, Usage
from fencepost.guarantee import Guarantee
from fencepost.local import Stack
from fencepost.run.consume import run_handler
from fencepost.sinks.kafka import Output

AMO, ALO = Guarantee.AT_MOST_ONCE, Guarantee.AT_LEAST_ONCE
STYLES = [
    (AMO, Commit.SYNC, Per.BATCH),
    (AMO, Commit.SYNC, Per.RECORD),
    (AMO, Commit.ASYNC, Per.BATCH),
    (AMO, Commit.ASYNC, Per.RECORD),
    (ALO, Commit.AUTO, Per.BATCH),
    (ALO, Commit.SYNC, Per.BATCH),
    (ALO, Commit.SYNC, Per.RECORD),
    (ALO, Commit.SYNC, 0.05),
    (ALO, Commit.ASYNC, Per.BATCH),
    (ALO, Commit.ASYNC, Per.RECORD),
    (ALO, Commit.ASYNC, 0.05),
]


def settings(group: Group, guarantee: Guarantee = ALO, commit: Commit = Commit.SYNC, **more: Any) -> ConsumerSettings:
    return ConsumerSettings(group.kafka, group.name, group.name, guarantee, commit, **{"batch": 20, **more})


IN_THE_GATE = [STYLES[0], STYLES[3], STYLES[4], STYLES[6], STYLES[10]]  # each word, each commit and each `per`


@pytest.mark.parametrize(
    ("guarantee", "commit", "per"),
    [pytest.param(*style, marks=() if style in IN_THE_GATE else pytest.mark.proof) for style in STYLES],
)
def test_everything_once_and_the_position_at_the_end(
    group: Group, guarantee: Guarantee, commit: Commit, per: Per | float
) -> None:
    group.produce(range(100))
    seen: list[int] = []
    asked = settings(group, guarantee, commit, per=per)
    done = run_handler(Consumption(asked, lambda events: seen.extend(numbers(events))), True)
    assert (sorted(seen), done.rows) == (list(range(100)), 100)
    assert committed(group) == {0: 50, 1: 50}


def test_the_next_run_goes_on_where_the_group_stands(group: Group) -> None:
    group.produce(range(10))
    first: list[int] = []
    run_handler(Consumption(settings(group), lambda events: first.extend(numbers(events))), True)
    group.produce(range(10, 16))
    second: list[int] = []
    run_handler(Consumption(settings(group), lambda events: second.extend(numbers(events))), True)
    assert sorted(second) == list(range(10, 16))


def test_a_handler_that_fails_is_called_again_and_then_the_event_is_named_and_nothing_after_it_committed(
    group: Group,
) -> None:
    group.produce(range(0, 20, 2))  # partition 0, offsets 0 to 9
    calls: list[int] = []

    def handle(events: list[Event]) -> None:
        calls.extend(numbers(events))
        if numbers(events) == [8]:
            raise ValueError("no such customer")

    with pytest.raises(HandlerFailed, match=f"{group.name}/0 offset 4") as failed:
        run_handler(Consumption(settings(group, per=Per.RECORD, retries=2), handle), True)
    assert "ValueError" in str(failed.value)
    assert calls == [0, 2, 4, 6, 8, 8, 8]
    assert committed(group)[0] == 4


@pytest.mark.parametrize("commit", [Commit.SYNC, Commit.ASYNC])
def test_at_most_once_a_handler_that_fails_is_told_that_its_event_is_not_read_again(
    group: Group, commit: Commit
) -> None:
    group.produce(range(0, 20, 2))
    calls: list[int] = []

    def handle(events: list[Event]) -> None:
        calls.extend(numbers(events))
        if numbers(events) == [8]:
            raise ValueError("no such customer")

    with pytest.raises(HandlerFailed, match="offset 4") as failed:
        run_handler(Consumption(settings(group, AMO, commit, per=Per.RECORD, retries=0), handle), True)
    assert failed.value.remedy.startswith("these were committed before the handler was called")
    run_handler(Consumption(settings(group, AMO, commit, per=Per.RECORD), handle), True)
    assert calls == list(range(0, 20, 2))


def test_at_most_once_into_a_topic_a_handler_that_fails_is_called_again_with_what_was_put_back(
    stack: Stack, tmp_path: Path
) -> None:
    group, target = Group(stack, tmp_path, partitions=1), Group(stack, tmp_path, partitions=1)
    group.produce(range(6))
    mended, calls = Flag(), list[int]()

    def handle(events: list[Event]) -> list[Output]:
        if not mended.is_set():
            raise ValueError("no such customer")
        calls.extend(numbers(events))
        return [Output(event.value) for event in events]

    asked = settings(group, AMO, retries=0)
    with pytest.raises(HandlerFailed) as failed:
        run_handler(Consumption(asked, handle, to_topics=(target.name,)), True)
    assert "was put back before them: fix the handler, and run again" in failed.value.remedy
    mended.set()
    assert run_handler(Consumption(asked, handle, to_topics=(target.name,)), True).rows == 6
    assert calls == list(range(6))


def test_a_handler_that_recovers_costs_nothing(group: Group) -> None:
    group.produce(range(4))
    failures = iter([True, False])

    def handle(events: list[Event]) -> None:
        if next(failures, False):
            raise ConnectionError

    assert run_handler(Consumption(settings(group), handle), True).rows == 4


@pytest.mark.proof
def test_a_handler_slower_than_the_poll_interval_keeps_its_membership(group: Group) -> None:
    group.produce([0, 2])
    quick = {"max.poll.interval.ms": "6000", "session.timeout.ms": "6000"}
    slow = ConsumerSettings({**group.kafka, **quick}, group.name, group.name, ALO, per=Per.RECORD)
    pauses = iter([7.0])  # the handler is slow with the first one, nothing is waited for

    work = Consumption(slow, lambda _: time.sleep(next(pauses, 0.0)))
    assert run_handler(work, True).rows == 2
    assert work.done.given_up == 0


def test_where_to_start_is_resolved_once(group: Group) -> None:
    group.produce(range(10))
    seen: list[int] = []

    def read(start: Any) -> None:
        run_handler(Consumption(settings(group, start=start), lambda events: seen.extend(numbers(events))), True)

    with pytest.raises(PositionLost):
        read("committed")
    read("latest")
    group.produce(range(10, 14))
    read("latest")  # the group has a position now: it goes on from there
    assert sorted(seen) == list(range(10, 14))


def test_a_position_that_the_topic_does_not_hold_any_more_is_an_error_and_no_jump(group: Group) -> None:
    from confluent_kafka import TopicPartition as DriverPartition

    group.produce(range(20))
    run_handler(Consumption(settings(group), lambda _events: None), True)
    group.produce(range(20, 40))
    group.cluster.admin.delete_records([DriverPartition(group.name, 0, 15)])[
        DriverPartition(group.name, 0, 15)
    ].result()
    with pytest.raises(RecordsGone, match="15"):
        run_handler(Consumption(settings(group), lambda _events: None), True)


def test_combinations_that_cannot_hold_are_refused_with_the_reason(group: Group) -> None:
    for more in ({"commit": Commit.AUTO}, {"per": 1.0}, {"commit": Commit.ASYNC, "per": 1.0}):
        with pytest.raises(UnsupportedGuarantee, match="before the commit is answered"):
            settings(group, AMO, **more)
    with pytest.raises(UnsupportedGuarantee, match="not committed together"):
        Consumption(settings(group, Guarantee.EXACTLY_ONCE), lambda _events: None)
    stored = ConsumerSettings({**group.kafka, "enable.auto.offset.store": "true"}, group.name, group.name, ALO)
    with pytest.raises(Usage, match="would break"):
        run_handler(Consumption(stored, lambda _events: None), True)


def test_a_session_that_the_brokers_refuse_is_said_and_not_waited_for(group: Group) -> None:
    settings = ConsumerSettings({**group.kafka, "session.timeout.ms": "10"}, group.name, group.name, ALO)
    with pytest.raises(Usage, match=r"Invalid session timeout: session\.timeout\.ms"):
        run_handler(Consumption(settings, lambda _: None), once=True)
