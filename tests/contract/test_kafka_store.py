"""What only the Kafka store does: several topics at once, its clients, and records that cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from contract.kafka_flow import Flow
from fencepost.delivery import deliver
from fencepost.errors import Refused, Usage
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Span, Step, TopicPartition
from fencepost.sinks.kafka import KafkaStore, Output


class Change(Exception):
    """Somebody changed their mind."""


def rows(**columns: pa.Array) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict(columns)


def carry(flow: Flow, given: Iterator[pa.RecordBatch], store: KafkaStore | None = None) -> Landed:
    store = store or flow.open()
    tenure = flow.plan.take_over(store)
    position = tenure.positions[flow.plan.source]
    batch = Batch({flow.plan.source: Span(position, position + 1)}, given, tenure)
    return deliver(Guarantee.EXACTLY_ONCE, batch, store, store)


def test_two_topics_are_written_together_and_an_aborted_transaction_in_neither(flow: Flow) -> None:
    store = flow.open()
    tenure = flow.plan.take_over(store)

    def fail(step: Step, _batch: Batch[object]) -> None:
        if step is Step.WRITTEN:
            raise Change

    with pytest.raises(Change):
        flow.plan.carry(store, tenure, 0, 10, fail)
    assert [len(flow.topics.messages(topic, "read_uncommitted")) for topic in flow.targets] == [5, 5]
    assert [flow.topics.committed(topic) for topic in flow.targets] == [[], []]
    assert flow.plan.carry(store, tenure, 0, 10) == Landed(rows=10)
    assert [sorted(map(int, flow.topics.committed(topic))) for topic in flow.targets] == [
        [0, 2, 4, 6, 8],
        [1, 3, 5, 7, 9],
    ]


def test_an_output_says_of_which_record_it_was_made(flow: Flow) -> None:
    store = flow.open()
    flow.plan.carry(store, flow.plan.take_over(store), 0, 4)
    found = {
        int(message.value() or b""): dict(message.headers() or []) for message in flow.topics.messages(flow.targets[0])
    }
    assert found == {number: {"fencepost.from": f"{flow.source}/0/{number}/0".encode()} for number in (0, 2)}


def test_key_headers_and_partition_are_those_of_the_row(flow: Flow) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    landed = carry(
        flow,
        rows(
            value=pa.array([b"one", None], pa.binary()),
            key=pa.array(["k", "k"]),
            headers=pa.array([[{"key": "h", "value": b"1"}], None], kind),
            partition=pa.array([1, 0], pa.int32()),
        ),
    )
    assert landed == Landed(rows=2)
    found = [(m.partition(), m.value(), m.key(), m.headers()) for m in flow.topics.messages(flow.targets[0])]
    assert found == [(0, None, b"k", None), (1, b"one", b"k", [("h", b"1")])]


def test_outputs_of_another_kind_of_rows(flow: Flow) -> None:
    store = KafkaStore(flow.plan.settings, lambda numbers: (Output(b"%d" % number, topic=None) for number in numbers))
    flow.stores.append(store)
    tenure = flow.plan.take_over(store)
    batch = Batch({flow.plan.source: Span(0, 5)}, range(5), tenure)
    assert deliver(Guarantee.EXACTLY_ONCE, batch, store, store) == Landed(rows=5)
    assert flow.landed() == [0, 1, 2, 3, 4]


def test_undisturbed_the_client_is_kept(flow: Flow) -> None:
    store = flow.open()
    tenure = flow.plan.take_over(store)
    clients = set()
    for start in range(0, 40, 10):
        flow.plan.carry(store, tenure, start, start + 10)
        clients.add(store._producer_of(tenure.pipeline, flow.plan.source)._producer.client)
    assert len(clients) == 1
    assert flow.landed() == list(range(40))


def test_a_queue_that_is_full_is_waited_for(flow: Flow) -> None:
    kafka = {**flow.plan.settings.kafka, "queue.buffering.max.messages": "10"}
    store = KafkaStore(replace(flow.plan.settings, kafka=kafka))
    flow.stores.append(store)
    assert carry(flow, rows(value=pa.array([str(n) for n in range(500)])), store) == Landed(rows=500)
    assert flow.landed() == list(range(500))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"value": pa.array(["x" * 2_000_000])}, "too large"),
        ({"value": pa.array(["x"]), "topic": pa.array(["elsewhere"])}, "not declared"),
        ({"value": pa.array(["x"]), "partition": pa.array([9])}, "partition"),
        ({"amount": pa.array([1])}, "no column `value`"),
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(
    flow: Flow, columns: dict[str, pa.Array], said: str
) -> None:
    store = flow.open()
    good = rows(value=pa.array(["1", "2"]))
    tenure = flow.plan.take_over(store)
    both = Batch({flow.plan.source: Span(0, 3)}, iter([*good, *rows(**columns)]), tenure)
    with pytest.raises(Refused, match=said):
        deliver(Guarantee.EXACTLY_ONCE, both, store, store)
    assert flow.landed() == []
    assert flow.position() == 0
    assert carry(flow, rows(value=pa.array(["3"]))) == Landed(rows=1)


@pytest.mark.parametrize("guarantee", [Guarantee.AT_MOST_ONCE, Guarantee.AT_LEAST_ONCE])
def test_the_two_orders_in_two_steps_land_once_too_when_nothing_happens(flow: Flow, guarantee: Guarantee) -> None:
    store = flow.open()
    tenure = flow.plan.take_over(store)
    assert flow.plan.carry(store, tenure, 0, 10, guarantee=guarantee) == Landed(rows=10)
    assert flow.plan.carry(store, tenure, 0, 10, guarantee=guarantee) == Landed(rows=0, already=True)
    assert flow.landed() == list(range(10))
    assert flow.position() == 10


def test_an_idle_position_is_stored_again_by_an_empty_span(flow: Flow) -> None:
    store = flow.open()
    tenure = flow.plan.take_over(store)
    flow.plan.carry(store, tenure, 0, 10)
    store.advance(Batch({flow.plan.source: Span(10, 10)}, (), tenure))
    assert flow.position() == 10


def test_a_batch_of_several_partitions_is_refused(flow: Flow) -> None:
    store = flow.open()
    spans = {TopicPartition(flow.source, number): Span(0, 1) for number in range(2)}
    with pytest.raises(Usage, match="one source partition at a time"):
        store.advance(Batch(spans, (), flow.plan.take_over(store)))


def test_a_transaction_longer_than_the_brokers_allow_is_refused(flow: Flow) -> None:
    kafka = {**flow.plan.settings.kafka, "transaction.timeout.ms": "99999999"}
    store = KafkaStore(replace(flow.plan.settings, kafka=kafka))
    with pytest.raises(Usage, match="timeout"):
        flow.plan.take_over(store)
