"""Records on their way to the driver: each of them once and in order, whatever it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Poison, Refused
from fencepost.kafka.producer import Client
from fencepost.model import Span, TopicPartition
from fencepost.sinks.kafka import KafkaSettings
from fencepost.sinks.kafka.outputs import arrow_records, by_field, kept_time
from fencepost.sinks.kafka.sending import Sending

SETTINGS = KafkaSettings({"bootstrap.servers": "127.0.0.1:1"}, "p", ("out", "more"))
AT = TopicPartition("in", 3)
TOO_LARGE = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))


class Taking(Client):
    """A client that takes what it is given, unless `refuse` raises for the number of the call."""

    def __init__(self, refuse: Callable[[int], object] = lambda _: None) -> None:
        self.calls = 0
        self.taken: list[tuple[Any, ...]] = []
        self._refuse = refuse

    @property
    def produce(self) -> Callable[..., None]:
        return self.take

    def take(self, topic: Any, value: Any, key: Any, partition: Any, *_: Any, timestamp: Any = 0, **more: Any) -> None:
        self.calls += 1
        self._refuse(self.calls)
        self.taken.append((topic, value, key, partition))

    def poll(self, seconds: float = 0.0) -> int:
        return 0

    def drain(self, enough: Callable[[], bool] = lambda: False) -> None: ...


def sending(client: Client) -> Sending:
    return Sending(client, SETTINGS, (AT, Span(0, 10**6)))


def rows(count: int, first: int = 0) -> pa.RecordBatch:
    offsets = range(first, first + count)
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array([str(number) for number in offsets]),
            "_topic": pa.array([AT.topic] * count),
            "_partition": pa.array([AT.partition] * count, pa.int32()),
            "_offset": pa.array(offsets, pa.int64()),
            "_n": pa.array([0] * count, pa.int32()),
        }
    )


@given(st.lists(st.integers(0, 2_500), max_size=3), st.sets(st.integers(1, 6_000), max_size=50))
def test_each_record_is_sent_once_and_in_order_while_the_queue_is_full(sizes: list[int], full: set[int]) -> None:
    def refuse(call: int) -> None:
        if call in full:
            raise BufferError

    client = Taking(refuse)
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    batches = [rows(size, start) for size, start in zip(sizes, starts, strict=True)]
    assert sending(client).send(arrow_records(iter(batches)), ["out"]) == sum(sizes)
    assert [value for _, value, *_ in client.taken] == [str(number).encode() for number in range(sum(sizes))]
    assert {(topic, partition) for topic, _, _, partition in client.taken} <= {("out", -1)}


def test_every_record_that_is_too_large_is_named_and_the_others_are_sent() -> None:
    def refuse(call: int) -> None:
        if call in (1, 2, 1_500, 1_501):  # each of them is tried twice
            raise TOO_LARGE

    client = Taking(refuse)
    with pytest.raises(Poison) as poison:
        sending(client).send(arrow_records(iter([rows(2_000)])), ["out"])
    assert [offset for offset, _ in poison.value.records] == [0, 1_498]
    assert len(client.taken) == 1_998


def test_an_output_goes_to_the_topic_and_partition_that_it_names() -> None:
    client = Taking()
    batch = pa.RecordBatch.from_pydict(
        {"value": ["a", "b"], "topic": ["more", None], "partition": pa.array([None, 2], pa.int32()), "key": ["k", None]}
    )
    sending(client).send(arrow_records(iter([batch])), SETTINGS.topics)
    assert client.taken == [("more", b"a", b"k", -1), ("out", b"b", None, 2)]


def test_a_topic_that_is_not_declared_is_refused_before_anything_of_its_part_is_sent() -> None:
    client = Taking()
    records = [(b"a", None, None, None, None, 0), (b"b", None, "else", None, None, 0)]
    with pytest.raises(Refused, match="'else', which is not declared"):
        sending(client).send(by_field(iter(records)), SETTINGS.topics)
    assert not client.taken


@given(st.lists(st.none() | st.integers(-(10**15), 10**15), min_size=1))
def test_times_of_columns_are_those_of_single_records(micros: list[int | None]) -> None:
    kind = pa.timestamp("us", tz="UTC")
    batch = pa.RecordBatch.from_pydict({"value": ["v"] * len(micros), "timestamp": pa.array(micros, kind)})
    (found,) = arrow_records(iter([batch]))
    assert found.times == [kept_time(None if at is None else at // 1000) for at in micros]


def with_headers(*headers: object) -> pa.RecordBatch:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
    return rows(len(headers)).append_column("headers", pa.array(headers, kind))


def test_text_of_a_header_is_sent_whole() -> None:
    (made,) = arrow_records(iter([with_headers([{"key": "n", "value": "a\0b"}], None)]))
    assert list(made.headers) == [[("fencepost.from", b"in/3/0/0"), ("n", b"a\0b")], [("fencepost.from", b"in/3/1/0")]]


@pytest.mark.parametrize(
    "bad", [[{"key": None, "value": "v"}], [{"key": "a\0b", "value": "v"}], [None]], ids=["no name", "NUL", "none"]
)
def test_a_header_that_cannot_be_is_its_records_own_fault(bad: object) -> None:
    client = Taking()
    with pytest.raises(Poison, match="a header has") as poison:
        sending(client).send(arrow_records(iter([with_headers(None, bad, None)])), ["out"])
    assert [offset for offset, _ in poison.value.records] == [1]
    assert len(client.taken) == 2


@pytest.mark.parametrize("raised", [KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION)), OverflowError()])
def test_a_partition_that_the_topic_lacks_is_its_records_own_fault(raised: Exception) -> None:
    asked = []

    def refuse(call: int) -> None:
        if call in (2, 3, 4):
            raise raised

    class Asked(Taking):
        def connect(self, topic: str) -> None:
            asked.append(topic)

    with pytest.raises(Poison, match="no partition"):
        sending(Asked(refuse)).send(arrow_records(iter([rows(3)])), ["out"])
    assert asked == ([] if isinstance(raised, OverflowError) else ["out"])
