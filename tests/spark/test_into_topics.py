"""From Spark into a topic: records and positions in one transaction of each task."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Message, Producer

from fencepost.errors import UnsupportedGuarantee, Usage
from fencepost.kafka.mirror import MARK
from fencepost.kafka.names import group_of
from fencepost.kafka.standalone_consumer import StandaloneConsumer
from fencepost.local import Stack
from fencepost.sinks.kafka.outputs import ORIGIN
from spark.topic_flows import TopicFlow


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> TopicFlow:
    return TopicFlow(stack, tmp_path)


def test_every_record_lands_once_and_the_group_is_the_ledger(flow: TopicFlow) -> None:
    flow.produce(range(200))
    assert flow.run().rows == 200
    flow.assert_exact(200)
    flow.produce(range(200, 300))
    assert flow.run().rows == 100
    flow.assert_exact(300)
    assert flow.positions() == {0: 150, 1: 150}
    group = StandaloneConsumer(flow.kafka, group_of(flow.name))
    try:
        found = group.stored([flow.partition(0), flow.partition(1)], 30.0)
    finally:
        group.close()
    assert [one.metadata for one in found.values() if not one.metadata or one.metadata == MARK] == []


def test_records_without_a_transform_are_the_same_from_both_engines(flow: TopicFlow) -> None:
    """Keys, values, tombstones, headers in their order, times, and where each came from."""
    producer = Producer(flow.kafka)
    tricky: list[dict[str, Any]] = [
        {"value": b"plain", "key": b"k", "timestamp": 1_700_000_000_123},
        {"value": None, "key": b"gone", "headers": [("why", b"deleted")]},
        {"value": b"", "key": b"", "headers": [("a", b"1"), ("a", None), ("b", b""), ("a", b"\xff\x00")]},
        {"value": b"\xff\xfe no text", "key": None, "timestamp": 1},
        {"value": b"x", "key": "ключ".encode(), "headers": [("имя", "да".encode())]},
        *({"value": str(n).encode(), "key": str(n).encode()} for n in range(50)),
    ]
    for record in tricky:
        producer.produce(flow.name, partition=0, **record)
    assert producer.flush(60) == 0
    there: dict[str, list[Message]] = {}
    for engine in ("python", "spark"):
        target = flow.make_more(engine, partitions=4)
        flow.run(
            name=f"{flow.name}_{engine}",
            engine=engine,
            source={"topic": flow.name, "value": "string"},
            transform=None,
            options={"topic": target},
        )
        there[engine] = flow.messages(target)
    came = sorted(map(_parts, there["spark"]), key=repr)
    assert came == sorted(map(_parts, there["python"]), key=repr)
    sent = flow.messages(flow.name)
    assert sorted((found[0], found[1]) for found in came if found[0] and found[1]) == sorted(
        (record["key"], record["value"]) for record in tricky if record["key"] and record["value"]
    )
    times = {_place(message): message.timestamp() for message in sent}
    assert {_origin(message): message.timestamp() for message in there["spark"]} == times
    headers = {_place(message): _headers(message) for message in sent}
    assert {_origin(message): _headers(message)[1:] for message in there["spark"]} == headers


def _parts(message: Message) -> tuple[Any, ...]:
    partition = None if message.key() is None else message.partition()  # without a key: any
    return message.key(), message.value(), message.headers(), message.timestamp(), partition


def _place(message: Message) -> str:
    return f"{message.topic()}/{message.partition()}/{message.offset()}/0"


def _origin(message: Message) -> str:
    (name, value), *_ = _headers(message)
    assert name == ORIGIN
    return str(value.decode())


def _headers(message: Message) -> list[tuple[str, Any]]:
    return list(cast(Any, message.headers()) or [])


def test_rows_name_topic_partition_headers_and_time(flow: TopicFlow) -> None:
    other = flow.make_more("other", 2)
    flow.produce(range(10))
    query = f"""SELECT CAST(id AS STRING) AS value, IF(id % 2 = 0, '{other}', NULL) AS topic,
        IF(id % 2 = 0, 1, NULL) AS partition, array(struct('h' AS key, CAST(s AS BINARY) AS value)) AS headers,
        timestamp_millis(1000 + id) AS timestamp, _from FROM events"""
    flow.run(transform={"sql": query}, options={"topics": [other]})
    assert sorted(flow.landed()) == [1, 3, 5, 7, 9]
    found = flow.messages(other)
    assert [(int(one.value() or b""), one.partition(), one.timestamp()[1]) for one in found] == [
        (n, 1, 1000 + n) for n in range(0, 10, 2)
    ]
    assert [dict(_headers(one))["h"] for one in found] == [str(n).encode() for n in range(0, 10, 2)]


def test_rows_that_can_be_no_records_are_refused_before_an_event_moves(flow: TopicFlow) -> None:
    flow.produce(range(10))
    for query, complaint in {
        "SELECT id AS value, _from FROM events": "'value' is of type int64, but a record holds bytes",
        "SELECT struct(id) AS value, _from FROM events": "'value' is of type struct",
        "SELECT s AS value, id, _from FROM events": "cannot hold id",
        "SELECT s AS value, to_json(array(s)) AS headers FROM events": "'headers' is of type string",
        "SELECT s AS value, CAST(timestamp AS timestamp_ntz) AS timestamp FROM events": "a time with a zone",
        "SELECT s AS value, s AS partition FROM events": "a partition is an integer",
    }.items():
        with pytest.raises(Usage) as refused:
            flow.run(transform={"sql": query})
        assert complaint in refused.value.message, query
    assert flow.positions() == {}


def test_a_topic_that_is_read_or_is_not_there_is_no_target(flow: TopicFlow) -> None:
    with pytest.raises(UnsupportedGuarantee, match="read and written by the same pipeline"):
        flow.run(options={"topic": flow.name})
    with pytest.raises(Usage, match="nowhere"):
        flow.run(options={"topic": f"{flow.name}-nowhere"})
    assert flow.positions() == {}
