"""Requests that come late, and answers that do not come: the output is exact, whatever the driver believes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.kafka_flow import Flow
from contract.kafka_topics import KafkaTopics
from fencepost.errors import Unknown
from fencepost.kafka import producer as client_module
from fencepost.kafka.producer import Client
from fencepost.lab.proxy import Action, Api, Direction, Rule, RuleId
from fencepost.lab.scenarios.field import Field
from fencepost.model import Batch, Landed, Step
from fencepost.sinks.kafka import KafkaStore


@pytest.fixture
def flow(field: Field) -> Iterator[Flow]:
    """The writers go through the proxies, the readers past them."""
    with Flow(KafkaTopics(field.stack.direct_servers), field.kafka) as flow:
        yield flow
    field.proxy.clear()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CALL_SECONDS", 1.0)
    monkeypatch.setattr(client_module, "TIMEOUT_SECONDS", 2.0)


def hold(field: Field, flow: Flow, request: Api) -> RuleId:
    """The next such request of the writers is kept back, and their connection cut: they send it again."""
    client = flow.plan.settings.kafka["client.id"]
    return field.proxy.add(Rule(action=Action.HOLD_DETACH, request=request, client=client, count=1))


def let_go(field: Field, rule: RuleId) -> None:
    assert field.proxy.witness(rule).hits == 1
    field.proxy.release(rule)
    field.proxy.wait_done(rule)


def first_batch_with_a_straggler(field: Field, flow: Flow, store: KafkaStore, request: Api) -> tuple[RuleId, Landed]:
    """Ten events have landed, and a copy of a request that moved them is still under way."""
    tenure = flow.plan.take_over(store)
    rule = hold(field, flow, request)
    assert flow.plan.carry(store, tenure, 0, 10) == Landed(rows=10)
    assert flow.landed() == list(range(10))

    seen: list[list[int]] = []

    def look(step: Step, _batch: Batch[object]) -> None:
        if step is Step.WRITTEN:
            let_go(field, rule)
            seen.append(flow.landed())

    landed = flow.plan.carry(store, tenure, 10, 20, look)
    assert seen == [list(range(10))], "half of an open transaction was read"
    return rule, landed


def test_a_late_end_of_a_transaction_does_not_tear_the_next_one(field: Field, flow: Flow) -> None:
    _, landed = first_batch_with_a_straggler(field, flow, flow.open(), Api.END_TXN)
    assert landed == Landed(rows=10)
    assert flow.landed() == list(range(20))
    assert flow.position() == 20


def test_control_with_a_client_that_is_kept_it_does(field: Field, flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "repeated", lambda _client: False)
    with pytest.raises(AssertionError, match="half of an open transaction"):
        first_batch_with_a_straggler(field, flow, flow.open(), Api.END_TXN)


def test_a_late_position_does_not_go_back(field: Field, flow: Flow) -> None:
    store = flow.open()
    tenure = flow.plan.take_over(store)
    rule = hold(field, flow, Api.TXN_OFFSET_COMMIT)
    flow.plan.carry(store, tenure, 0, 10)

    def late(step: Step, _batch: Batch[object]) -> None:
        if step is Step.ADVANCED:
            let_go(field, rule)

    flow.plan.carry(store, tenure, 10, 20, late)
    assert flow.position() == 20
    assert flow.plan.take_over(flow.open()).positions == {flow.plan.source: 20}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("direction", list(Direction))
def test_a_commit_without_an_answer_is_decided_before_anything_is_sent_again(
    field: Field, flow: Flow, direction: Direction
) -> None:
    store = flow.open()
    tenure = flow.plan.take_over(store)
    client = flow.plan.settings.kafka["client.id"]
    rule = field.proxy.add(Rule(action=Action.DROP, direction=direction, request=Api.END_TXN, client=client))
    if direction is Direction.RESPONSE:  # it was committed, and nobody said so
        assert flow.plan.carry(store, tenure, 0, 10) == Landed(rows=0, already=True)
    else:
        with pytest.raises(Unknown, match="unknown whether"):
            flow.plan.carry(store, tenure, 0, 10)
    assert field.proxy.witness(rule).hits >= 1
    field.proxy.release(rule)
    again = flow.plan.carry(store, tenure, 0, 10)
    assert again == (Landed(rows=0, already=True) if direction is Direction.RESPONSE else Landed(rows=10))
    flow.plan.carry(store, tenure, 10, 20)
    assert flow.landed() == list(range(20))
