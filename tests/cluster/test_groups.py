"""`fencepost group` against real brokers and a live consumer, of both protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from fencepost.kafka.client import Cluster, wait_until
from fencepost.kafka.groups import describe_group
from fencepost.kafka.topics import delete_topic
from fencepost.local import Stack

Command = Callable[..., Any]


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def consumer(
    stack: Stack, cluster: Cluster, topic: str, produce: Callable[[int], None], protocol: str
) -> Iterator[Consumer]:
    """A member that owns both partitions and has read and committed two of the five records in partition 0."""
    produce(5)
    settings = {
        "bootstrap.servers": stack.bootstrap_servers,
        "group.id": topic,
        "group.protocol": protocol,
        "client.id": "reader",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    seen = [message for _ in range(2) if (message := consumer.poll(60))]
    consumer.commit(message=seen[-1], asynchronous=False)
    yield consumer
    consumer.close()


def test_position_lag_and_owner_of_a_live_group(
    fencepost: Command, consumer: Consumer, topic: str, protocol: str
) -> None:
    shown = fencepost("group", "describe", topic, "--format", "json").json
    assert (shown["group"], shown["type"], shown["state"]) == (topic, protocol, "stable")
    (member,) = shown["members"]
    assert (member["client_id"], member["host"]) == ("reader", "127.0.0.1")
    assert shown["partitions"] == [
        {"topic": topic, "partition": 0, "position": 2, "end_offset": 5, "lag": 3, "owner": member},
        {"topic": topic, "partition": 1, "position": None, "end_offset": 0, "lag": None, "owner": member},
    ]
    line = fencepost("group", "describe", topic).out.splitlines()[2].split()
    assert line == [topic, "0", "2", "5", "3", "reader", "127.0.0.1", member["member_id"]]


def test_a_position_outlives_its_owner(fencepost: Command, cluster: Cluster, consumer: Consumer, topic: str) -> None:
    consumer.close()
    assert wait_until(lambda: describe_group(cluster, topic).state == "empty", 20)
    left = describe_group(cluster, topic)
    assert left.members == ()
    (only,) = left.partitions
    assert (only.partition, only.position, only.lag, only.owner) == (0, 2, 3, None)
    listed = {one["group"]: one for one in fencepost("group", "list", "--format", "json").json["groups"]}
    assert listed[topic] == {"group": topic, "type": left.type, "state": "empty"}


def test_an_unknown_group_is_answered_with_the_nearest(
    fencepost: Command, consumer: Consumer, topic: str, stack: Stack
) -> None:
    refused = fencepost("group", "describe", topic[:-1])
    assert refused.code == 2
    assert refused.complaint == (
        f"fencepost: there is no consumer group {topic[:-1]} at {stack.bootstrap_servers}: did you mean {topic}?"
    )


def test_a_group_whose_topic_is_gone_can_be_looked_at(cluster: Cluster, consumer: Consumer, topic: str) -> None:
    consumer.close()
    delete_topic(cluster, topic)
    for one in describe_group(cluster, topic).partitions:
        assert one.end_offset is None
        assert one.lag is None


def test_a_position_that_an_open_transaction_holds_is_told_as_it_was(
    stack: Stack, cluster: Cluster, topic: str, produce: Callable[[int], None]
) -> None:
    produce(5)
    here = {"bootstrap.servers": stack.bootstrap_servers, "group.id": topic}
    reader = Consumer(here)
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(60)

    def move(position: int) -> None:
        producer.begin_transaction()
        offset = TopicPartition(topic, 0, position)
        producer.send_offsets_to_transaction([offset], reader.consumer_group_metadata(), 60)

    def positions() -> list[int | None]:
        return [one.position for one in describe_group(cluster, topic).partitions]

    try:
        move(2)
        producer.commit_transaction(60)
        assert wait_until(lambda: positions() == [2], 20)
        move(4)
        assert positions() == [2]
        producer.commit_transaction(60)
        assert wait_until(lambda: positions() == [4], 20)
    finally:
        reader.close()
