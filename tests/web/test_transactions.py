"""Transactions on real brokers: open ones come and go, one that really hangs is found and ended, a live one is not."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

import httpx
import pytest
from confluent_kafka import KafkaException

from fencepost.local import Stack
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
