"""Transactions on real brokers: open ones come and go, one that really hangs is found and ended, a live one is not."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from uuid import uuid4

import httpx
import pytest
from confluent_kafka import KafkaException, Producer

from fencepost.errors import Usage
from fencepost.kafka.open_transactions import find_open, require_hanging
from fencepost.kafka.wire import Wire
from fencepost.local import Stack
from fencepost.model import TopicPartition
from producing.topics import Topics
from support.commands import Ended, apart, here
from web.hanging import hang
from web.serving import PATIENCE, page_with, token_of, without
from web.transactions import transaction


@pytest.fixture
def txn(stack: Stack) -> Callable[..., Ended]:
    return lambda *words: here("txn", *words, "--bootstrap-server", stack.bootstrap_servers)


def test_an_open_one_is_listed_described_and_shown_until_it_ends(
    web: httpx.Client, topics: Topics, stack: Stack, txn: Callable[..., Ended]
) -> None:
    name, id_ = topics.make(partitions=2), f"txn-{uuid4().hex}"
    with transaction(stack.bootstrap_servers, name, 3, id_, partition=1):
        listed = txn("list", "--open", "--format", "json").json["transactions"]
        assert {one["state"] for one in listed if one["transactional_id"] == id_} == {"Ongoing"}
        said = txn("describe", id_, "--format", "json").json
        assert said["partitions"] == [{"topic": name, "partition": 1}]
        assert said["open"]
        assert not said["overdue"]
        page_with(web, "/transactions", id_)
        found = web.get("/api/transactions").json()
        (held,) = [one for one in found["holding"] if one["topic"] == name]
        assert (held["partition"], held["start_offset"], held["gap"], held["transactional_id"]) == (1, 0, 3, id_)
        shown = web.get("/api/transaction", params={"id": id_}).json()
        assert {**shown, "age_seconds": 0} == {**said, "age_seconds": 0}
        assert "held since 0 by producer" in page_with(web, f"/topics/{name}", "held since")
    topics.await_decided(name)
    assert not txn("describe", id_, "--format", "json").json["open"]
    without(web, "/api/transactions", f'"topic": "{name}"')


def test_a_live_one_is_neither_hanging_nor_aborted(
    web: httpx.Client, topics: Topics, stack: Stack, txn: Callable[..., Ended]
) -> None:
    name = topics.make(partitions=1)
    with transaction(stack.bootstrap_servers, name) as producer:
        assert txn("find-hanging", "--topic", name).code == 0
        refused = txn("abort", "--topic", name, "--partition", 0, "--yes")
        assert refused.code == 2
        assert "its producer may be alive" in refused.complaint
        answer = web.post(
            "/api/transactions/abort", json={"topic": name, "partition": 0, "start_offset": 0}, headers=token_of(web)
        )
        assert answer.status_code == 400
        assert "may be alive" in answer.json()["message"]
        producer.commit_transaction(60)
        producer.begin_transaction()
    assert len(topics.values(name)) == 3


def test_one_whose_owner_commits_all_the_time_is_never_taken_for_hanging(topics: Topics, stack: Stack) -> None:
    """It may commit between the leader's answer and the coordinators', and go on under the same id and epoch."""
    name, ending, at_work = topics.make(partitions=1), Event(), Event()

    def work() -> None:
        producer = Producer({**topics.kafka, "transactional.id": f"txn-{uuid4().hex}", "linger.ms": 0})
        producer.init_transactions(60)
        while not ending.is_set():
            producer.begin_transaction()
            producer.produce(name, b"x")
            producer.commit_transaction(60)
            at_work.set()

    worker = Thread(target=work)
    worker.start()
    try:
        assert at_work.wait(60)
        with Wire(topics.kafka) as wire:
            deadline, seen = time.monotonic() + PATIENCE, 0
            while seen < 20 and time.monotonic() < deadline:
                with suppress(Usage):  # none is open at this moment
                    meant = find_open(wire, TopicPartition(name, 0), None, None)
                    seen += 1
                    with pytest.raises(Usage):
                        require_hanging(wire, meant)
        assert seen
    finally:
        ending.set()
        worker.join(90)


@pytest.mark.parametrize("id_", ["", "x" * 40_000], ids=["empty", "long"])
def test_what_can_be_no_transactional_id_is_told(web: httpx.Client, txn: Callable[..., Ended], id_: str) -> None:
    assert txn("describe", id_).code == 2
    assert web.get("/api/transaction", params={"id": id_}).status_code == 400


def test_a_live_one_is_aborted_where_that_is_meant(topics: Topics, stack: Stack, txn: Callable[..., Ended]) -> None:
    name = topics.make(partitions=1)
    with suppress(KafkaException), transaction(stack.bootstrap_servers, name):  # its owner may hear of it, or not
        done = txn("abort", "--topic", name, "--partition", 0, "--live", "--yes")
        assert done.code == 0
        assert "warning: transactional.id" in done.err
    assert not topics.values(name)


def test_one_that_hangs_is_found_and_aborted(topics: Topics, txn: Callable[..., Ended], stack: Stack) -> None:
    name = topics.make(partitions=2)
    producer = hang(topics.kafka, name, partition=1)
    found = txn("find-hanging", "--topic", name, "--format", "json")
    assert found.code == 1
    assert f'"producer_id": {producer}' in found.out
    asked = apart("txn", "abort", "--topic", name, "--partition", 1, "--bootstrap-server", stack.bootstrap_servers)
    assert asked.code == 2
    assert "add --yes" in asked.complaint
    ended = txn("abort", "--topic", name, "--partition", 1, "--yes", "--format", "json").json
    assert (ended["aborted"], ended["start_offset"], ended["producer_id"]) == (True, 0, producer)
    assert txn("find-hanging", "--topic", name).code == 0
    topics.await_decided(name)
    again = txn("abort", "--topic", name, "--partition", 1, "--yes")
    assert again.code == 2
    assert "no such open transaction" in again.complaint


def test_the_page_ends_one_that_hangs(web: httpx.Client, topics: Topics) -> None:
    name = topics.make(partitions=1)
    hang(topics.kafka, name)
    deadline = time.monotonic() + PATIENCE
    while not [one for one in web.get("/api/transactions/hanging").json()["hanging"] if one["topic"] == name]:
        assert time.monotonic() < deadline, "not found"
        time.sleep(0.5)
    assert f"Abort the transaction at 0 of {name}/0?" in web.get("/transactions").text
    answer = web.post(
        "/api/transactions/abort", json={"topic": name, "partition": "0", "start_offset": "0"}, headers=token_of(web)
    )
    assert answer.json()["aborted"]
    assert f"Abort the transaction at 0 of {name}/0?" not in web.get("/transactions").text
    topics.await_decided(name)


def test_what_there_is_not_is_told(txn: Callable[..., Ended], topics: Topics, web: httpx.Client) -> None:
    name = topics.make(partitions=1)
    assert "see `fencepost txn list`" in txn("describe", f"no-{uuid4().hex}").complaint
    assert txn("abort", "--topic", name, "--partition", 9, "--yes").code == 2
    assert f"did you mean {name}?" in txn("find-hanging", "--topic", f"{name}x").complaint
    assert web.get("/transaction?id=nobody").status_code == 404
    assert web.get("/transaction").status_code in (400, 404)
    bad = {"topic": "../x", "partition": "1e9", "start_offset": "-1"}
    assert web.post("/api/transactions/abort", json=bad, headers=token_of(web)).status_code == 400
