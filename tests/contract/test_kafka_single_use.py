"""Stores whose producers serve one transaction each, as those of Spark's tasks do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from uuid import uuid4

import pytest

from contract.kafka_flow import Flow
from contract.kafka_steps import Point, stepping
from contract.kafka_topics import KafkaTopics
from fencepost.errors import Fenced, Rewound
from fencepost.kafka import transactions
from fencepost.lab.proxy import Action, Api, Direction, Rule
from fencepost.lab.scenarios.field import Field
from fencepost.model import Landed, TopicPartition
from fencepost.sinks.kafka import KafkaStore


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """How often a producer took its id."""
    seen: list[Point] = []
    monkeypatch.setattr(
        transactions, "Client", stepping(lambda at: seen.append(at) if at is Point.AFTER_INIT else None)
    )
    return seen


def single(flow: Flow) -> KafkaStore:
    store = KafkaStore(flow.plan.settings, reuse=False)
    flow.stores.append(store)
    return store


def test_each_batch_has_one_producer_and_none_stays_behind(flow: Flow, begun: list[Point]) -> None:
    store = single(flow)
    tenure = flow.plan.take_over(store)
    del begun[:]
    for start in (0, 10, 20):
        assert flow.plan.carry(store, tenure, start, start + 10) == Landed(rows=10)
    assert len(begun) == 3
    assert not any(producer.taken for producer in store._producers.values())
    assert flow.landed() == list(range(30))


def test_batches_of_one_partition_go_through_several_stores_in_turn(flow: Flow) -> None:
    """What one remembers of the position is wrong after another's batch; so it must not remember."""
    first, second = single(flow), single(flow)
    tenure = flow.plan.take_over(single(flow))
    for number in range(6):
        store = (first, second)[number % 2]
        assert flow.plan.carry(store, tenure, 10 * number, 10 * number + 10) == Landed(rows=10)
    assert flow.landed() == list(range(60))


def test_control_stores_that_keep_their_producers_stand_in_each_others_way(flow: Flow) -> None:
    first, second = flow.open(), flow.open()
    tenure = flow.plan.take_over(flow.open())
    flow.plan.carry(first, tenure, 0, 10)
    flow.plan.carry(second, tenure, 10, 20)
    with pytest.raises(Rewound):
        flow.plan.carry(first, tenure, 20, 30)
    assert flow.landed() == list(range(20))


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_of_two_runs_that_take_over_at_the_same_moment_one_delivers(flow: Flow) -> None:
    """Twenty times: whoever is fenced says so, and every batch is there once."""
    every = {TopicPartition(flow.source, number): 0 for number in range(3)}
    pipeline = flow.plan.settings.pipeline
    won = 0
    for _ in range(20):
        barrier = Barrier(2)

        def run(barrier: Barrier = barrier) -> int:
            store = single(flow)
            barrier.wait()
            tenure = store.take_over(pipeline, uuid4(), every, {})
            start = tenure.positions[flow.plan.source]
            with suppress(Fenced):
                while True:
                    try:
                        return flow.plan.carry(store, tenure, start, start + 10).rows
                    except Rewound:  # the other one took the id, and not the positions
                        tenure = store.renew(tenure, uuid4())
            return 0

        with ThreadPoolExecutor(2) as pool:
            landed = sum(work.result() for work in [pool.submit(run) for _ in range(2)])
        assert landed in (10, 20)  # the second may take over after the first has delivered
        won += landed
    assert flow.landed() == list(range(won))


@pytest.fixture
def through(field: Field) -> Iterator[Flow]:
    """The writers go through the proxies, the readers past them."""
    with Flow(KafkaTopics(field.stack.direct_servers), field.kafka) as flow:
        yield flow
    field.proxy.clear()


def _rules(client: str) -> dict[str, Callable[[], Rule]]:
    return {
        "request lost": lambda: Rule(action=Action.RESET, request=Api.END_TXN, client=client, count=1),
        "answer lost": lambda: Rule(
            action=Action.RESET, request=Api.END_TXN, client=client, count=1, direction=Direction.RESPONSE
        ),
        "late": lambda: Rule(action=Action.HOLD_DETACH, request=Api.END_TXN, client=client, count=1),
    }


@pytest.mark.parametrize(
    "fault", ["late", *(pytest.param(one, marks=pytest.mark.proof) for one in ("request lost", "answer lost"))]
)
def test_a_commit_in_trouble_lands_once_and_does_not_tear_the_next(field: Field, through: Flow, fault: str) -> None:
    store = single(through)
    tenure = through.plan.take_over(store)
    rule = field.proxy.add(_rules(through.plan.settings.kafka["client.id"])[fault]())
    through.plan.carry(store, tenure, 0, 10)
    field.proxy.wait_hits(rule)
    seen: list[list[int]] = []

    def release(*_told: object) -> None:
        if fault == "late" and not seen:
            field.proxy.release(rule)
            field.proxy.wait_done(rule)
        seen.append(through.landed())

    through.plan.carry(store, tenure, 10, 20, release)
    assert seen[0] == list(range(10)), "half of an open transaction was read"
    assert through.landed() == list(range(20))
    assert through.position() == 20
