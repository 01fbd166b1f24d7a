"""Records from Arrow's columns, and what a Kafka sink refuses to be told."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fencepost.errors import Refused, Usage
from fencepost.model import TopicPartition
from fencepost.sinks.kafka import KafkaSettings, Output, from_arrow

KAFKA = {"bootstrap.servers": "127.0.0.1:1"}


def outputs(**columns: pa.Array) -> list[Output]:
    return list(from_arrow(iter([pa.RecordBatch.from_pydict(columns)])))


def test_a_value_alone_is_enough() -> None:
    assert outputs(value=pa.array([b"a", None], pa.binary())) == [Output(b"a"), Output(None)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()])
def test_texts_and_bytes_of_every_kind(kind: pa.DataType) -> None:
    assert outputs(value=pa.array(["é"], kind), key=pa.array(["k"], kind)) == [Output("é".encode(), b"k")]


def test_more_rows_than_are_converted_at_once() -> None:
    ids = [str(number) for number in range(25_000)]
    assert [one.value for one in outputs(value=pa.array(ids))] == [id_.encode() for id_ in ids]


def test_provenance_becomes_a_header_before_the_rows_own() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    (found,) = outputs(
        value=pa.array(["v"]),
        headers=pa.array([[{"key": "h", "value": b"1"}]], kind),
        _topic=pa.array(["orders"]),
        _partition=pa.array([3], pa.int32()),
        _offset=pa.array([12], pa.int64()),
        _n=pa.array([1], pa.int32()),
    )
    assert found.headers == [("fencepost.from", b"orders/3/12/1"), ("h", b"1")]


def test_topic_and_partition_where_they_are_given() -> None:
    found = outputs(value=pa.array(["a", "b"]), topic=pa.array(["t", None]), partition=pa.array([1, None]))
    assert [(one.topic, one.partition) for one in found] == [("t", 1), (None, None)]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": pa.array([1])}, "no column `value`"),
        ({"value": pa.array(["v"]), "amount": pa.array([1]), "id": pa.array([1])}, "cannot hold amount, id"),
        ({"value": pa.array([{"a": 1}])}, "holds bytes"),
        ({"value": pa.array(["v"]), "headers": pa.array(["h"])}, "headers"),
    ],
)
def test_other_rows_are_refused(columns: dict[str, pa.Array], said: str) -> None:
    with pytest.raises(Refused, match=said):
        outputs(**columns)


@pytest.mark.parametrize("setting", [{"acks": "1"}, {"enable.idempotence": "false"}, {"transactional.id": "mine"}])
def test_settings_that_would_break_it_are_refused(setting: dict[str, str]) -> None:
    with pytest.raises(Usage, match="would break the guarantee"):
        KafkaSettings({**KAFKA, **setting}, "p", ("t",))


def test_secrets_are_not_shown_and_no_topic_is_refused() -> None:
    assert "geheim" not in repr(KafkaSettings({**KAFKA, "sasl.password": "geheim"}, "p", ("t",)))
    with pytest.raises(Usage, match="needs a topic"):
        KafkaSettings(KAFKA, "p", ())


def test_no_two_partitions_share_a_transactional_id() -> None:
    settings = KafkaSettings(KAFKA, "p", ("t",))
    sources = [("a", "b.1", 2), ("a", "b", 12), ("a", "b", 1), ("a:b", "1", 2), ("a", "b-1", 2)]
    ids = {settings.transactional_id(name, TopicPartition(topic, number)) for name, topic, number in sources}
    assert len(ids) == len(sources)


def test_what_is_usual_gives_way_to_what_the_user_says() -> None:
    usual = KafkaSettings(KAFKA, "p", ("t",)).producer("x")
    assert (usual["transaction.timeout.ms"], usual["queue.buffering.max.messages"]) == (900_000, 500_000)
    own = KafkaSettings({**KAFKA, "queue.buffering.max.messages": "7"}, "p", ("t",)).producer("x")
    assert own["queue.buffering.max.messages"] == "7"
