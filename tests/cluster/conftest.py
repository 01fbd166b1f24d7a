"""Commands against brokers of several kinds, with what they print and how they end."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from cluster.secured import USER, SecuredBroker, secured_broker
from cluster.tokens import TokenPlace, token_place
from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack
from support.commands import Command, apart, here


@pytest.fixture
def elsewhere() -> Command:
    """Run a command that names its own cluster, or none, as a person does: in a process of its own."""
    return apart


@pytest.fixture
def fencepost(stack: Stack) -> Command:
    """Run a command against the stack's brokers."""
    return lambda *words: here(*words, "--bootstrap-server", stack.bootstrap_servers)


@pytest.fixture
def cluster(stack: Stack) -> Cluster:
    return Cluster({"bootstrap.servers": stack.bootstrap_servers})


@pytest.fixture(scope="package")
def broker() -> Iterator[SecuredBroker]:
    """One for all that get in by password or by token; who may do what is each test's own."""
    with secured_broker(f"canary-of-kafka-{uuid.uuid4().hex}") as broker:
        yield broker


@pytest.fixture
def tokens(broker: SecuredBroker) -> Iterator[TokenPlace]:
    certificates, secret = broker.certificates, f"canary-of-the-client-{uuid.uuid4().hex}"
    with token_place(certificates.tokens, certificates.broker, USER, secret) as place:
        yield place


@pytest.fixture
def name() -> str:
    """Every test has topics and groups of its own."""
    return f"look-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic(cluster: Cluster, name: str) -> str:
    """A topic of two partitions."""
    create_topic(cluster, TopicRequest(name, partitions=2))
    return name


@pytest.fixture
def produce(stack: Stack, topic: str) -> Callable[[int], None]:
    """Write records into partition 0 and wait until the in-sync set has them."""

    def write(count: int) -> None:
        producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "linger.ms": 0})
        for number in range(count):
            producer.produce(topic, str(number), partition=0)
        assert producer.flush(30) == 0

    return write


@pytest.fixture
def open_transaction(stack: Stack, topic: str) -> Callable[[int], Any]:
    """A transaction with records in partition 0 that stays open inside the block, and is committed at its end."""

    @contextmanager
    def transaction(count: int) -> Iterator[None]:
        producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "transactional.id": topic, "linger.ms": 0})
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in range(count):
            producer.produce(topic, str(number), partition=0)
        assert producer.flush(30) == 0
        yield
        producer.commit_transaction(60)

    return transaction
