"""Commits that the network delays, loses or delivers late; each witnessed by the proxy."""

from __future__ import annotations

from typing import Any

import pytest

from consuming.groups import Group
from consuming.members import at_work, committed, numbers
from fencepost.cluster.client import wait_until
from fencepost.consuming.commits import Commit
from fencepost.consuming.consumer import Consumption
from fencepost.consuming.settings import ConsumerSettings, Per
from fencepost.guarantee import Guarantee
from fencepost.lab.proxy import Action, Api, Direction, Rule
from fencepost.lab.scenarios.field import Field

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
