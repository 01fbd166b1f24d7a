"""Groups on real brokers: lag in records, without markers, rising and falling."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from fencepost.local import Stack
from producing.topics import Topics
from web.groups import committed
from web.serving import PATIENCE, page_with
from web.transactions import commit, transaction, written


@contextmanager
def reader(servers: str, group: str, topic: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def lag_becomes(web: httpx.Client, group: str, records: int) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while (found := web.get("/api/group", params={"name": group}).json()).get("lag_records") != records:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    return dict(found)


def test_lag_counts_records_and_not_markers(web: httpx.Client, topics: Topics, stack: Stack) -> None:
    name, group, servers = topics.make(partitions=1), f"g-{uuid4().hex}", stack.bootstrap_servers
    for _ in range(3):
        with transaction(servers, name, 2) as producer:
            commit(producer)
    with transaction(servers, name, 4):
        pass
    topics.await_decided(name)
    committed(servers, group, name, 3)
    found = lag_becomes(web, group, 4)
    assert (found["lag_offsets"], found["lag_exact"]) == (11, True)
    committed(servers, group, name, 8)
    assert lag_becomes(web, group, 0)["lag_offsets"] == 6
    with transaction(servers, name, 5):
        written(servers, name, (None, "behind"))
        page_with(web, f"/api/group?name={group}", '"held_by_transactions": 6')
        lag_becomes(web, group, 0)
    topics.await_decided(name)
    lag_becomes(web, group, 1)


def test_lag_rises_and_falls_with_its_member(web: httpx.Client, topics: Topics, stack: Stack) -> None:
    name, group, servers = topics.make(partitions=1), f"g-{uuid4().hex}", stack.bootstrap_servers
    written(servers, name, *((None, str(n)) for n in range(10)))
    with reader(servers, group, name) as consumer:
        first = consumer.consume(4, PATIENCE)
        consumer.commit(message=first[-1], asynchronous=False)
        found = lag_becomes(web, group, 6)
        (member,) = found["group"]["members"]
        assert found["lag_seconds"] > 0
        written(servers, name, *((None, str(n)) for n in range(5)))
        lag_becomes(web, group, 11)
        rest = consumer.consume(11, PATIENCE)
        consumer.commit(message=rest[-1], asynchronous=False)
        assert lag_becomes(web, group, 0)["lag_seconds"] == 0
        assert member["member_id"] in page_with(web, f"/group?name={group}", member["member_id"])
    page_with(web, f"/groups?q={group}", group)


def test_history_is_told_as_charts_take_it(web: httpx.Client, topics: Topics, stack: Stack) -> None:
    name, group = topics.make(partitions=1), f"g-{uuid4().hex}"
    written(stack.bootstrap_servers, name, *((None, str(n)) for n in range(7)))
    committed(stack.bootstrap_servers, group, name, 2)
    deadline = time.monotonic() + 2 * PATIENCE
    while not (found := web.get("/api/group/history", params={"name": group, "hours": 1}).json())["times"]:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert found["series"][0]["values"][-1] == 5
    in_time = web.get("/api/group/history", params={"name": group, "hours": 1, "measure": "seconds"}).json()
    assert in_time["series"][0]["label"] == "seconds behind"
    assert in_time["series"][0]["values"][-1] > 0
    assert web.get("/api/group/history", params={"name": group, "measure": "miles"}).status_code == 400
    assert web.get("/api/group/history", params={"name": group, "hours": "-1"}).status_code == 400


def test_a_group_that_is_none_is_told(web: httpx.Client, topics: Topics, stack: Stack) -> None:
    assert web.get("/api/group", params={"name": f"no-{uuid4().hex}"}).status_code == 404
    assert web.get("/group").status_code == 400
    assert web.get("/group", params={"name": "a\0b"}).status_code == 400
    hostile = f'"><img src=x onerror=alert(1)>{uuid4().hex}'
    name = topics.make(partitions=1)
    committed(stack.bootstrap_servers, hostile, name, 0)
    page = page_with(web, "/groups", hostile[-32:])
    assert "<img" not in page
    shown = web.get("/group", params={"name": hostile})
    assert shown.status_code == 200
    assert "<img" not in shown.text


def test_records_that_were_deleted_unread_do_not_hide_the_others(
    web: httpx.Client, topics: Topics, stack: Stack
) -> None:
    name, group, servers = topics.make(partitions=1), f"g-{uuid4().hex}", stack.bootstrap_servers
    written(servers, name, *((str(number), "x") for number in range(100)))
    committed(servers, group, name, 10)
    admin = AdminClient({"bootstrap.servers": servers})  # kept: its futures need it
    for future in admin.delete_records([TopicPartition(name, 0, 60)]).values():
        future.result(30)
    assert lag_becomes(web, group, 40)["partitions"][0]["gone_unread"] == 50
