"""Transactions: whole or not at all, fenced by a successor, and every event's outcome is its transaction's."""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost import Producer
from fencepost.errors import Fenced, Refused, Usage
from fencepost.model import Outcome
from fencepost.producing.sender import Handle
from producing.topics import Topics


def transactional(topics: Topics, topic: str, id_: str | None = None, **settings: str) -> Producer:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    name = id_ or f"id-{uuid.uuid4().hex}"
    return Producer(topic, "exactly-once", topics.kafka | dotted, transactional_id=name)


def attempt(
    producer: Producer, handles: list[Handle], values: list[bytes], then: Callable[[], object] = lambda: None
) -> None:
    """A transaction that may fail after `then`."""
    with producer.transaction():
        handles += [producer.send(value) for value in values]
        then()


def fail() -> None:
    raise ZeroDivisionError


def test_it_is_committed_whole_over_partitions_and_topics(topics: Topics) -> None:
    one, other = topics.make(partitions=3), topics.make(partitions=1)
    with transactional(topics, one) as producer:
        with producer.transaction():
            handles = [producer.send(b"%d" % n) for n in range(30)] + [producer.send(b"other", topic=other)]
            assert {handle.outcome for handle in handles} == {Outcome.UNKNOWN}
            assert topics.values(one, decided=False) == Counter()
        assert {handle.outcome for handle in handles} == {Outcome.ACKED}
        assert all(handle.offset is not None for handle in handles)
    assert topics.values(one) == Counter(b"%d" % n for n in range(30))
    assert topics.values(other) == Counter([b"other"])


def test_an_exception_aborts_it_and_nothing_of_it_is_read(topics: Topics) -> None:
    topic = topics.make()
    with transactional(topics, topic) as producer:

        def fail_when_delivered() -> None:
            producer._ready().drain()
            fail()

        handles: list[Handle] = []
        with pytest.raises(ZeroDivisionError):
            attempt(producer, handles, [b"%d" % n for n in range(10)], fail_when_delivered)
        assert {handle.outcome for handle in handles} == {Outcome.ABORTED}
        assert topics.values(topic, "read_uncommitted") == Counter(b"%d" % n for n in range(10))
        with producer.transaction():
            again = producer.send(b"again")
        assert again.outcome is Outcome.ACKED
    assert topics.values(topic) == Counter([b"again"])


def test_a_refused_event_aborts_the_others(topics: Topics) -> None:
    topic = topics.make(config={"max.message.bytes": "1000"})
    with transactional(topics, topic, linger_ms="0") as producer:
        handles: list[Handle] = []
        with pytest.raises(Refused, match="event 2 of the transaction failed"):
            attempt(producer, handles, [b"small", b"x" * 5000])
        small, large = handles
        assert (small.outcome, large.outcome) == (Outcome.ABORTED, Outcome.REFUSED)
        with producer.transaction():
            producer.send(b"next")
    assert topics.values(topic) == Counter([b"next"])


def test_a_refused_event_among_many_is_told_at_once(topics: Topics) -> None:
    """After a failure the client sends nothing more of the transaction: waiting for the rest would take its timeout."""
    topic = topics.make(partitions=1, config={"max.message.bytes": "2000"})
    small = b"x" * 100
    values = [small] * 50 + [random.Random(1).randbytes(5000)] + [small] * 20_000
    with transactional(topics, topic, compression_type="lz4", linger_ms="0", batch_num_messages="10") as producer:
        with pytest.raises(Refused):
            attempt(producer, [], values)
        outcomes = producer.totals.outcomes
        assert outcomes[Outcome.REFUSED]
        assert outcomes.total() == outcomes[Outcome.REFUSED] + outcomes[Outcome.ABORTED]
        with producer.transaction():
            producer.send(b"next")
    assert topics.values(topic) == Counter([b"next"])


def test_a_zombie_is_fenced_says_so_and_stops(topics: Topics) -> None:
    topic, id_ = topics.make(), f"id-{uuid.uuid4().hex}"
    with transactional(topics, topic, id_) as old, transactional(topics, topic, id_) as new:
        handles: list[Handle] = []
        with pytest.raises(Fenced, match="took over"):
            attempt(old, handles, [b"zombie"], lambda: attempt(new, [], [b"successor"]))
        assert handles[0].outcome is Outcome.ABORTED
        with pytest.raises(Fenced), old.transaction():
            pass
        with new.transaction():
            new.send(b"goes on")
    assert topics.values(topic) == Counter([b"successor", b"goes on"])


def test_outside_of_a_transaction_nothing_is_sent(topics: Topics) -> None:
    with transactional(topics, topics.make()) as producer:
        with pytest.raises(Usage, match="in transactions"):
            producer.send(b"x")
        with producer.transaction(), pytest.raises(Usage, match="open already"), producer.transaction():
            pass
        with producer.transaction(), pytest.raises(Usage, match="its end decides"):
            producer.flush()


def test_without_a_name_there_is_none(topics: Topics) -> None:
    with (
        Producer(topics.make(), "exactly-once", topics.kafka) as producer,
        pytest.raises(Usage, match="transactional_id"),
        producer.transaction(),
    ):
        pass


def test_an_empty_one_is_harmless(topics: Topics) -> None:
    topic = topics.make()
    with transactional(topics, topic) as producer:
        for n in range(3):
            with producer.transaction():
                pass
            with producer.transaction():
                producer.send(b"%d" % n)
    assert topics.values(topic) == Counter([b"0", b"1", b"2"])


def test_undisturbed_the_client_is_kept(topics: Topics) -> None:
    with transactional(topics, topics.make()) as producer:
        clients = set()
        for n in range(4):
            with producer.transaction():
                producer.send(b"%d" % n)
            clients.add(producer._client)
        assert len(clients) == 1


def test_its_end_is_in_the_journal(topics: Topics, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    id_ = f"id-{uuid.uuid4().hex}"
    with Producer(topics.make(), "exactly-once", topics.kafka, transactional_id=id_, journal=path) as producer:
        with producer.transaction():
            producer.send(b"one")
        with pytest.raises(ZeroDivisionError):
            attempt(producer, [], [b"two"], fail)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[1:] == [
        {"begin": 1},
        {"sent": [1, 1]},
        {"commit": 1},
        {"begin": 2},
        {"sent": [2, 2]},
        {"abort": 2},
    ]
