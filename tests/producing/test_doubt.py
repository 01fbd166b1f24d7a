"""Answers that do not come: unknown is told as unknown, and stragglers do not reach the next transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from fencepost import Producer
from fencepost.errors import Fenced, Unknown
from fencepost.guarantee import Guarantee
from fencepost.kafka import producer as client_module
from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import describe_topic
from fencepost.lab.proxy import Action, Api, Direction, Rule
from fencepost.lab.scenarios.field import Field
from fencepost.model import Outcome
from fencepost.producing.events import Event
from fencepost.producing.resume import ProduceJob, Run
from fencepost.producing.sender import Handle
from fencepost.producing.source_position import SourcePosition, StoredPlace
from fencepost.producing.source_producer import SourceProducer
from fencepost.producing.sources.source import numbered_orders

EVENTS = 200


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CALL_SECONDS", 1.0)
    monkeypatch.setattr(client_module, "TIMEOUT_SECONDS", 2.0)


@pytest.fixture(autouse=True)
def healed(field: Field) -> Iterator[None]:
    yield
    field.proxy.clear()


def send_all(producer: Producer, values: list[bytes], handles: list[Handle]) -> None:
    with producer.transaction():
        handles += [producer.send(value) for value in values]


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_send_that_timed_out_is_unknown_though_it_is_in_the_log(field: Field, guarantee: str) -> None:
    topic, kafka = field.topic(), field.kafka | {"delivery.timeout.ms": "2000", "socket.timeout.ms": "60000"}
    with Producer(topic, guarantee, kafka) as producer:
        producer.send(b"warm")
        producer.flush()
        rule = field.proxy.add(
            Rule(
                action=Action.HOLD,
                direction=Direction.RESPONSE,
                request=Api.PRODUCE,
                client=kafka["client.id"],
            )
        )
        handle = producer.send(b"doubtful")
        producer.flush()
        assert handle.outcome is Outcome.UNKNOWN
        assert "timed out" in handle.why
        assert field.proxy.witness(rule).hits >= 1
    assert Counter(field.read(topic)) == Counter([b"warm", b"doubtful"])


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("direction", list(Direction))
def test_a_commit_without_an_answer_is_unknown_and_the_next_transaction_goes_on(
    field: Field, direction: Direction
) -> None:
    topic, kafka = field.topic(), field.kafka
    with Producer(topic, "exactly-once", kafka, transactional_id=topic) as producer:
        handles: list[Handle] = []
        send_all(producer, [b"warm"], handles)
        rule = field.proxy.add(
            Rule(action=Action.DROP, direction=direction, request=Api.END_TXN, client=kafka["client.id"])
        )
        with pytest.raises(Unknown, match="unknown whether"):
            send_all(producer, [b"doubtful"], handles)
        field.proxy.release(rule)
        assert handles[1].outcome is Outcome.UNKNOWN
        send_all(producer, [b"next"], handles)
        assert handles[2].outcome is Outcome.ACKED
    arrived = [b"doubtful"] if direction is Direction.RESPONSE else []
    field.await_read(topic, Counter([b"warm", *arrived, b"next"]))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("direction", list(Direction))
def test_a_source_whose_commit_has_no_answer_looks_at_its_position_and_doubles_nothing(
    field: Field, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, kafka = field.topic(), field.kafka
    run = Run(kafka, ProduceJob(topic, Guarantee.EXACTLY_ONCE, "doubt"), numbered_orders(200))
    rule = field.proxy.add(
        Rule(action=Action.DROP, direction=direction, request=Api.END_TXN, client=kafka["client.id"], skip=1)
    )  # the first one stores where the source begins
    take_over = run.producer.take_over
    taken: list[int] = []

    def heal() -> object:
        if taken:
            field.proxy.release(rule)
        taken.append(1)
        return take_over()

    monkeypatch.setattr(run.producer, "take_over", heal)
    carried = run.carry()
    assert field.proxy.witness(rule).hits >= 1
    assert (carried.sent, carried.acked, carried.unknown) == (200, 200, 0)
    assert len(taken) == 2
    field.await_true(lambda: len(field.read(topic)) == 200, "not all of it is there")
    assert set(Counter(field.read(topic)).values()) == {1}


def test_after_a_repeated_end_the_client_is_replaced_before_the_next_transaction(field: Field) -> None:
    topic, kafka = field.topic(), field.kafka
    with Producer(topic, "exactly-once", kafka, transactional_id=topic) as producer:
        send_all(producer, [b"one"], [])
        first = producer._client
        field.proxy.add(Rule(action=Action.HOLD_DETACH, request=Api.END_TXN, client=kafka["client.id"], count=1))
        send_all(producer, [b"two"], [])
        send_all(producer, [b"three"], [])
        assert first is not None
        assert producer._client is not first


def test_a_late_position_does_not_go_back(field: Field) -> None:
    """Without a new epoch the held request would put the first place into the second transaction."""
    topic, kafka = field.topic(), field.kafka
    position = SourcePosition(field.direct, topic, topic)
    with SourceProducer(topic, "exactly-once", kafka, transactional_id=topic, delivery_reports=False) as producer:
        rule = field.proxy.add(
            Rule(action=Action.HOLD_DETACH, request=Api.TXN_OFFSET_COMMIT, client=kafka["client.id"], count=1)
        )
        with producer.transaction():
            producer.send_all([Event(b"one")])
            position.store_with(producer, {"number": 1}, "me")
        assert field.proxy.witness(rule).hits == 1
        assert position.read() == StoredPlace({"number": 1}, "me")
        with producer.transaction():
            producer.send_all([Event(b"two")])
            position.store_with(producer, {"number": 2}, "me")
            field.proxy.release(rule)
            field.proxy.wait_done(rule)
    assert position.read() == StoredPlace({"number": 2}, "me")
    position.close()


# -- a transaction that takes too long


def source(field: Field, topic: str) -> Run:
    kafka = field.kafka | {"transaction.timeout.ms": "2000", "delivery.timeout.ms": "2000"}
    return Run(kafka, ProduceJob(topic, Guarantee.EXACTLY_ONCE, "slow"), numbered_orders(EVENTS))


class Once:
    """Something that is done after the first events were sent, within their transaction."""

    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do
        self.done = False

    def __call__(self) -> None:
        if not self.done:
            self.done = True
            self._do()


def aborted(field: Field, topic: str) -> bool:
    """Are all records there, and is no transaction open any more?"""
    with Cluster(field.direct) as cluster:
        (partition,) = describe_topic(cluster, topic).partitions
    return (partition.end_offset or 0) > EVENTS and partition.last_stable_offset == partition.end_offset


def test_a_source_whose_transaction_took_too_long_is_fenced_by_nobody_and_goes_on(field: Field) -> None:
    topic = field.topic()
    stall = Once(lambda: field.await_true(lambda: aborted(field, topic), "the brokers did not end the transaction"))
    carried = source(field, topic).carry(stall)
    assert stall.done
    assert (carried.sent, carried.acked, carried.unknown) == (EVENTS, EVENTS, 0)
    assert sorted(Counter(field.read(topic)).values()) == [1] * EVENTS


def test_a_source_that_another_run_took_over_ends_and_takes_nothing_back(field: Field) -> None:
    topic = field.topic()
    successor = Once(source(field, topic).carry)
    with pytest.raises(Fenced, match="another run of this source took over"):
        source(field, topic).carry(successor)
    assert successor.done
    assert sorted(Counter(field.read(topic)).values()) == [1] * EVENTS
