"""Commits that the network delays, loses or delivers late; each witnessed by the proxy."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as DriverPartition

from consuming.groups import Group
from consuming.members import at_work, committed, numbers
from fencepost.engines.python.commits import Commit
from fencepost.engines.python.consumer import Consumption
from fencepost.engines.python.settings import ConsumerSettings, Per
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import wait_until
from fencepost.lab.proxy import Action, Api, Direction, Rule
from fencepost.lab.scenarios.field import Field
from support.gate_cases import in_the_gate

AMO, ALO = Guarantee.AT_MOST_ONCE, Guarantee.AT_LEAST_ONCE
proof = pytest.mark.proof
PATIENCE = 60.0


def on_commits(group: Group, action: Action, count: int | None = 1, **more: Any) -> Rule:
    return Rule(action=action, request=Api.OFFSET_COMMIT, client=group.name, count=count, **more)


STYLES = [
    pytest.param(AMO, Commit.SYNC, Per.BATCH, marks=proof),
    pytest.param(AMO, Commit.SYNC, Per.RECORD, marks=proof),
    (AMO, Commit.ASYNC, Per.BATCH),
    pytest.param(AMO, Commit.ASYNC, Per.RECORD, marks=proof),
    pytest.param(ALO, Commit.AUTO, Per.BATCH, marks=proof),
    pytest.param(ALO, Commit.SYNC, Per.BATCH, marks=proof),
    pytest.param(ALO, Commit.SYNC, Per.RECORD, marks=proof),
    pytest.param(ALO, Commit.SYNC, 0.05, marks=proof),
    (ALO, Commit.ASYNC, Per.BATCH),
    pytest.param(ALO, Commit.ASYNC, Per.RECORD, marks=proof),
    pytest.param(ALO, Commit.ASYNC, 0.05, marks=proof),
]
FAULTS: dict[str, dict[str, Any]] = {
    "delayed": {"action": Action.DELAY, "ms": 400},
    "lost": {"action": Action.RESET},
    "unanswered": {"action": Action.RESET, "direction": Direction.RESPONSE},
    "swallowed": {"action": Action.DROP},
}


@pytest.mark.parametrize(
    "fault", ["delayed", pytest.param("lost", marks=proof), pytest.param("unanswered", marks=proof), "swallowed"]
)
@pytest.mark.parametrize(("guarantee", "commit", "per"), STYLES)
def test_what_a_commit_in_trouble_costs(
    field: Field, behind_proxies: Group, guarantee: Guarantee, commit: Commit, per: Per | float, fault: str
) -> None:
    group, seen = behind_proxies, list[int]()
    kafka = {**group.kafka, "auto.commit.interval.ms": "50"}
    settings = ConsumerSettings(kafka, group.name, group.name, guarantee, commit, per, batch=10)
    member = Consumption(settings, lambda events: seen.extend(numbers(events)))
    group.produce(range(20))
    with at_work(member):
        assert wait_until(lambda: len(seen) >= 20, PATIENCE)  # it is a member, and commits
        rule = field.proxy.add(on_commits(group, **FAULTS[fault]))
        group.produce(range(20, 60))
        field.proxy.wait_hits(rule, timeout=PATIENCE)
        assert wait_until(lambda: len(set(seen)) >= 60, PATIENCE) or guarantee is AMO
        group.produce(range(60, 80))
        assert wait_until(lambda: set(seen) >= set(range(60, 80)), PATIENCE)
    assert committed(group) == {0: 80}
    lost, doubled = 80 - len(set(seen)), len(seen) - len(set(seen))
    if guarantee is ALO:
        assert lost == 0
    else:
        assert doubled == 0
    if fault == "delayed":
        assert (lost, doubled) == (0, 0)


def position(field: Field, group: Group) -> int:
    reader = Consumer({**field.direct, "group.id": group.name})
    ((found),) = reader.committed([DriverPartition(group.name, 0)], timeout=30)
    reader.close()
    return int(found.offset)


def test_control_an_asynchronous_commit_that_arrives_late_moves_the_position_back(
    field: Field, behind_proxies: Group
) -> None:
    group, answers = behind_proxies, list[int]()
    group.produce(range(40))
    plain = {"group.id": group.name, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**group.kafka, **plain, "on_commit": lambda _error, parts: answers.append(parts[0].offset)})
    consumer.subscribe([group.name])

    def commit(offset: int) -> None:
        consumer.commit(offsets=[DriverPartition(group.name, 0, offset)], asynchronous=True)

    def answered(offset: int) -> bool:
        consumer.poll(0.01)  # what is read does not matter here
        return offset in answers

    assert wait_until(lambda: consumer.poll(0.1) is not None, PATIENCE)
    commit(20)
    assert wait_until(lambda: answered(20), PATIENCE)
    late = field.proxy.add(on_commits(group, Action.HOLD_DETACH))
    commit(30)
    field.proxy.wait_hits(late, timeout=PATIENCE)
    commit(40)
    assert wait_until(lambda: answered(30) and answered(40), PATIENCE)
    field.proxy.release(late)
    field.proxy.wait_done(late, timeout=PATIENCE)
    assert position(field, group) == 30
    consumer.close()


@pytest.mark.parametrize(
    ("guarantee", "commit"),
    in_the_gate([(AMO, Commit.SYNC), (AMO, Commit.ASYNC), (ALO, Commit.ASYNC)], (AMO, Commit.ASYNC)),
)
def test_a_commit_that_arrives_late_is_refused_because_its_member_has_left(
    field: Field, behind_proxies: Group, guarantee: Guarantee, commit: Commit
) -> None:
    group, seen = behind_proxies, list[int]()
    settings = ConsumerSettings(group.kafka, group.name, group.name, guarantee, commit, batch=10)
    group.produce(range(20))
    with at_work(Consumption(settings, lambda events: seen.extend(numbers(events)))):
        assert wait_until(lambda: position(field, group) == 20, PATIENCE)
        late = field.proxy.add(on_commits(group, Action.HOLD_DETACH))
        joins = field.proxy.add(Rule(action=Action.FORWARD, request=Api.JOIN_GROUP, client=group.name))
        group.produce(range(20, 40))
        field.proxy.wait_hits(late, timeout=PATIENCE)
        group.produce(range(40, 60))
        field.proxy.wait_done(joins, timeout=PATIENCE)  # it noticed, and joined anew
        assert wait_until(lambda: position(field, group) == 60, PATIENCE)
        field.proxy.release(late)
        field.proxy.wait_done(late, timeout=PATIENCE)
        assert position(field, group) == 60
        # asked before it stops: what was committed ahead and not processed by then goes back to the group
        assert wait_until(lambda: len(seen) >= 60, PATIENCE)
    assert sorted(seen) == list(range(60))
