"""Every send ends acked, refused or unknown; and a promise that the topic cannot carry is refused."""

from __future__ import annotations

import json
import os
import zlib
from collections import Counter
from pathlib import Path

import pytest

import fencepost
from fencepost import Producer
from fencepost.errors import Unreachable, UnsupportedGuarantee, Usage
from fencepost.local.ports import choose
from fencepost.model import EVENT_CHECKSUM, Outcome
from fencepost.producing.events import Event
from fencepost.producing.source_producer import SourceProducer
from producing.topics import Topics, header

# Kafka's own test vectors of murmur2
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(
    ("guarantee", "acks"),
    [("at-least-once", "leader"), ("at-least-once", "quorum"), ("exactly-once", None)],
)
def test_an_acked_event_is_where_its_handle_says(topics: Topics, guarantee: str, acks: str | None) -> None:
    topic = topics.make()
    with Producer(topic, guarantee, topics.kafka, acks=acks) as producer:
        handles = [producer.send(b"%d" % n) for n in range(100)]
        producer.flush()
        assert {handle.outcome for handle in handles} == {Outcome.ACKED}
        assert producer.totals.all_acked
    messages = topics.await_read(topic, 100)  # an acknowledgement by the leader alone says nothing about readers
    found = {(m.partition(), m.offset()): m.value() for m in messages}
    assert found == {(handle.partition, handle.offset): b"%d" % n for n, handle in enumerate(handles)}


def test_before_its_answer_an_event_is_unknown(topics: Topics) -> None:
    with Producer(topics.make(), "at-least-once", topics.kafka | {"linger.ms": "60000"}) as producer:
        handle = producer.send(b"waits")
        assert (handle.outcome, handle.why) == (Outcome.UNKNOWN, "no answer yet")
        assert producer.in_flight == 1
        producer._drop()
    assert handle.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("delivery_reports", [True, False])
def test_without_acknowledgements_every_outcome_is_unknown(topics: Topics, delivery_reports: bool) -> None:
    topic = topics.make()
    with SourceProducer(topic, "at-most-once", topics.kafka, delivery_reports=delivery_reports) as producer:
        handles = [producer.send(b"%d" % n) for n in range(10)]
        producer.send_all([Event(b"10"), Event(b"11")])
        producer.flush()
        assert {handle.outcome for handle in handles} == {Outcome.UNKNOWN}
        assert producer.totals.outcomes == {Outcome.UNKNOWN: 12}


@pytest.mark.parametrize("guarantee", ["at-most-once", "at-least-once", "exactly-once"])
def test_a_record_too_large_for_the_client_is_refused_and_the_others_arrive(topics: Topics, guarantee: str) -> None:
    topic = topics.make()
    with Producer(topic, guarantee, topics.kafka) as producer:
        producer.send(b"before")
        large = producer.send(b"x" * 2_000_000)
        producer.send(b"after")
        assert large.outcome is Outcome.REFUSED
        assert "too large" in large.why
        producer.flush()
        assert producer.totals.outcomes[Outcome.REFUSED] == 1
    if guarantee != "at-most-once":
        assert topics.values(topic) == Counter([b"before", b"after"])


@pytest.mark.parametrize("delivery_reports", [True, False])
def test_a_record_too_large_for_the_topic_is_refused(topics: Topics, delivery_reports: bool) -> None:
    topic = topics.make(config={"max.message.bytes": "1000"})
    with SourceProducer(topic, "at-least-once", topics.kafka, delivery_reports=delivery_reports) as producer:
        large, small = producer.send(b"x" * 5_000), producer.send(b"small")
        producer.flush()
        assert (large.outcome, small.outcome) == (Outcome.REFUSED, Outcome.ACKED)
        assert producer.take_refusals() == [(1, large.why)]
    assert topics.values(topic) == Counter([b"small"])


def test_an_event_carries_its_id_and_checksum_and_its_own_headers(topics: Topics) -> None:
    topic = topics.make(partitions=1)
    with Producer(topic, "exactly-once", topics.kafka, identify=lambda value: f"order-{value!r}") as producer:
        producer.send(b"derived", headers={"trace": b"7"})
        producer.send(b"given", id="order-17")
    with Producer(topic, "exactly-once", topics.kafka) as producer:
        counted = [producer.send(value) for value in (b"one", None)]
    messages = topics.read(topic)
    assert [header(message) for message in messages] == [
        "order-b'derived'",
        "order-17",
        f"{producer.producer_id}:1",
        f"{producer.producer_id}:2",
    ]
    assert [handle.id for handle in counted] == [header(message) for message in messages[2:]]
    for message in messages:
        assert header(message, EVENT_CHECKSUM) == f"{zlib.crc32(message.value() or b''):08x}"
    assert header(messages[0], "trace") == "7"


def test_a_key_goes_to_the_partition_where_a_java_producer_sends_it(topics: Topics) -> None:
    topic = topics.make(partitions=7)
    with Producer(topic, "at-least-once", topics.kafka) as producer:
        handles = {key: producer.send(b"", key) for key in MURMUR2}
    assert {key: handle.partition for key, handle in handles.items()} == {
        key: (found & 0x7FFFFFFF) % 7 for key, found in MURMUR2.items()
    }


class TestPromise:
    @pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
    def test_that_one_broker_cannot_keep_is_refused_with_what_to_change(self, topics: Topics, guarantee: str) -> None:
        topic = topics.make(replicas=1)
        with pytest.raises(UnsupportedGuarantee) as refused:
            Producer(topic, guarantee, topics.kafka)
        assert "a single broker holds" in refused.value.message
        assert "min.insync.replicas 2" in refused.value.remedy

    def test_of_the_leader_alone_is_taken_there(self, topics: Topics) -> None:
        with Producer(topics.make(replicas=1), "at-least-once", topics.kafka, acks="leader") as producer:
            handle = producer.send(b"x")
        assert handle.outcome is Outcome.ACKED

    def test_about_no_topic_is_refused_with_the_nearest_name(self, topics: Topics) -> None:
        topic = topics.make()
        with pytest.raises(Usage, match=topic):
            Producer(topic[:-1], "at-least-once", topics.kafka)

    def test_nobody_answers_is_told(self) -> None:
        port = choose(None, [])
        with pytest.raises(Unreachable, match=str(port)):
            Producer("orders", "at-least-once", {"bootstrap.servers": f"127.0.0.1:{port}"})

    def test_needs_to_know_the_brokers(self) -> None:
        with pytest.raises(Usage, match=r"bootstrap\.servers"):
            Producer("orders", "at-least-once", {})


def test_memory_is_bounded_and_sending_waits(topics: Topics) -> None:
    topic = topics.make()
    tight = topics.kafka | {"queue.buffering.max.messages": "100"}
    with SourceProducer(topic, "at-least-once", tight, delivery_reports=False) as producer:
        producer.send_all([Event(b"%d" % n) for n in range(5_000)])
        assert producer.in_flight <= 100
    assert topics.values(topic) == Counter(b"%d" % n for n in range(5_000))


def test_without_receipts_a_refusal_names_its_event(topics: Topics) -> None:
    topic = topics.make(partitions=1, config={"max.message.bytes": "1000"})
    settings = topics.kafka | {"compression.type": "gzip", "batch.num.messages": "1"}  # so the broker decides on each
    with SourceProducer(topic, "at-least-once", settings, delivery_reports=False) as producer:
        large = os.urandom(2000)
        events = [Event(b"one"), Event(large, b"k"), Event(b""), Event(large), Event(large), Event(None, b"k")]
        producer.send_all(events)
        totals = producer.flush()
        refused = [number for number, _ in producer.take_refusals()]
    assert refused == [2, 4, 5]
    assert totals.outcomes == {Outcome.ACKED: 3, Outcome.REFUSED: 3}
    assert [message.value() for message in topics.read(topic)] == [b"one", b"", None]


def test_the_journal_has_the_intent_before_and_the_outcome_after(topics: Topics, tmp_path: Path) -> None:
    topic, path = topics.make(config={"max.message.bytes": "1000"}), tmp_path / "journal"

    def lines() -> list[dict[str, object]]:
        return [json.loads(line) for line in path.read_text().splitlines()]

    waiting = topics.kafka | {"linger.ms": "1000"}
    with SourceProducer(topic, "at-least-once", waiting, journal=path) as producer:
        producer.send(b"one")
        assert lines()[-1] == {"sent": [1, 1]}
        producer.send(b"two", id="order-2")
        assert lines()[-1] == {"sent": [2, 2], "id": "order-2"}
        producer.flush()
        assert lines()[-1] == {"acked": [1, 2]}
        producer.send(b"x" * 2000)
        producer.flush()
        last = lines()[-1]
        assert last.pop("why")
        assert last == {"refused": [3, 3]}
        producer.send_all([Event(b"%d" % n) for n in range(10)])
        assert lines()[-1] == {"sent": [4, 13]}
    assert lines()[-1] == {"acked": [4, 13]}
    assert lines()[0] == {
        "journal": 1,
        "topic": topic,
        "producer": producer.producer_id,
        "guarantee": "at-least-once",
    }


class TestInterrupted:
    """What was not handed over must not pass for acknowledged when the rest is."""

    def test_in_the_middle_of_many_the_rest_never_left(self, topics: Topics, tmp_path: Path) -> None:
        topic, journal = topics.make(), tmp_path / "journal"
        with SourceProducer(topic, "at-least-once", topics.kafka, delivery_reports=False, journal=journal) as producer:
            bad = Event(7)  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                producer.send_all([Event(b"one"), Event(b"two"), bad, Event(b"four"), Event(b"five")])
            totals = producer.flush()
            assert totals.outcomes == {Outcome.ACKED: 2, Outcome.UNKNOWN: 1, Outcome.REFUSED: 2}
        assert topics.values(topic) == Counter([b"one", b"two"])
        assert [json.loads(line).get("acked") for line in journal.read_text().splitlines()[2:]].count([1, 2]) == 1

    def test_one_that_is_no_event_never_left(self, topics: Topics) -> None:
        topic = topics.make()
        with Producer(topic, "at-least-once", topics.kafka) as producer:
            with pytest.raises(Usage, match="reserved"):
                producer.send(b"x", headers={"fencepost.id": b"mine"})
            assert producer.flush().outcomes == {Outcome.REFUSED: 1}
        assert not topics.values(topic)

    def test_by_a_person_it_does_not_wait_and_the_open_ones_are_unknown(self, topics: Topics) -> None:
        producer = Producer(topics.make(), "at-least-once", topics.kafka | {"linger.ms": "60000"})
        handle = producer.send(b"waits")
        producer.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        assert handle.outcome is Outcome.UNKNOWN
        assert producer.totals.outcomes == {Outcome.UNKNOWN: 1}
        producer.close()


def test_the_producer_is_part_of_the_library() -> None:
    assert fencepost.Producer is Producer
