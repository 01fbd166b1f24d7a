"""The proxy between librdkafka and a real broker: each fault shows what it is known to do."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fencepost.kafka.topic_reader import read_in_order
from fencepost.lab.proxy import Action, Api, Direction, Proxy, Rule, RuleId
from fencepost.lab.scenarios.field import Field, door_name

BROKER = door_name("broker-1", "CLIENT")
QUICK = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "linger.ms": 900,  # a flush sends at once what waits: one request per partition
    "log_level": 0,
}


@dataclass
class Sender:
    """A producer with a client id of its own, and what became of each record."""

    producer: Producer
    client: str
    topic: str
    outcomes: dict[int, str] = dataclasses.field(default_factory=dict)  # ok, or the error's name

    def send(self, numbers: range, flush: bool = True) -> None:
        for n in numbers:
            self.producer.produce(self.topic, b"%d" % n, partition=n % 2, on_delivery=self._delivered)
        if flush:
            assert self.producer.flush(20) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self.outcomes[int(message.value() or b"")] = error.name() if error else "ok"


@dataclass(frozen=True)
class Cluster:
    proxy: Proxy
    proxied: str
    direct: str

    def sender(self, topic: str, **settings: Any) -> Sender:
        client = f"client-{uuid.uuid4().hex}"
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        producer = Producer(QUICK | {"bootstrap.servers": self.proxied, "client.id": client} | dotted)
        return Sender(producer, client, topic)

    def warm_sender(self, topic: str, **settings: Any) -> Sender:
        """Leaders are known and a producer id is held, so that a fault hits the records and nothing else."""
        sender = self.sender(topic, **settings)
        sender.send(range(2))
        self.await_read(topic, once(range(2)))  # without acknowledgements a flush says little
        return sender

    def read(self, topic: str, isolation: str = "read_committed") -> Counter[int]:
        """Every record up to the end that stands now."""
        found = read_in_order({"bootstrap.servers": self.direct}, topic, committed=isolation == "read_committed")
        return Counter(int(message.value() or b"") for message in found)

    def await_read(self, topic: str, expected: Counter[int]) -> None:
        deadline = time.monotonic() + 10
        while (found := self.read(topic)) != expected:
            assert time.monotonic() < deadline, found


@pytest.fixture
def cluster(field: Field) -> Iterator[Cluster]:
    yield Cluster(field.proxy, field.stack.bootstrap_servers, field.stack.direct_servers)
    field.proxy.cut(BROKER)
    field.proxy.unblock(BROKER)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Two partitions on one broker and no replicas: one request carries both, and nobody else holds them."""
    name = f"t-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": cluster.direct})
    new = NewTopic(name, 2, replica_assignment=[[1], [1]], config={"min.insync.replicas": "1"})
    admin.create_topics([new])[name].result(20)
    await_leaders(cluster.direct, name)
    return name


def await_leaders(servers: str, topic: str) -> None:
    """Before a partition has one, records that are sent without acknowledgements are lost."""
    reader = Consumer({"bootstrap.servers": servers, "group.id": "nobody"})
    waiting = [TopicPartition(topic, partition) for partition in (0, 1)]
    deadline = time.monotonic() + 20
    while waiting:
        try:
            reader.get_watermark_offsets(waiting[-1], 5)
            waiting.pop()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
    reader.close()


def once(numbers: range) -> Counter[int]:
    return Counter(numbers)


def lost_acknowledgement(client: str) -> Rule:
    return Rule(action=Action.RESET, direction=Direction.RESPONSE, request=Api.PRODUCE, client=client, count=1)


class TestLostAcknowledgement:
    def test_without_idempotence_what_was_sent_is_doubled(self, cluster: Cluster, topic: str) -> None:
        sender = cluster.warm_sender(topic, enable_idempotence=False)
        rule = cluster.proxy.add(lost_acknowledgement(sender.client))
        sender.send(range(2, 102, 2))  # one partition: one request
        assert cluster.proxy.witness(rule) == (1, 1)
        assert set(sender.outcomes.values()) == {"ok"}
        assert cluster.read(topic) == once(range(2)) + once(range(2, 102, 2)) + once(range(2, 102, 2))

    def test_with_idempotence_it_is_not(self, cluster: Cluster, topic: str) -> None:
        sender = cluster.warm_sender(topic, enable_idempotence=True)
        rule = cluster.proxy.add(lost_acknowledgement(sender.client))
        sender.send(range(2, 102, 2))
        assert cluster.proxy.witness(rule) == (1, 1)
        assert set(sender.outcomes.values()) == {"ok"}
        assert cluster.read(topic) == once(range(2)) + once(range(2, 102, 2))

    def test_of_another_client_it_is_not_lost(self, cluster: Cluster, topic: str) -> None:
        sender = cluster.warm_sender(topic, enable_idempotence=False)
        rule = cluster.proxy.add(lost_acknowledgement("another"))
        sender.send(range(2, 102))
        assert cluster.proxy.witness(rule) == (0, 0)
        assert cluster.read(topic) == once(range(102))


class TestLateEndOfTransaction:
    def held_end(self, cluster: Cluster, topic: str) -> tuple[Sender, RuleId]:
        """Transaction 1 is committed by a retry, its first EndTxn is under way still; transaction 2 is open."""
        sender = cluster.sender(topic, transactional_id=f"id-{topic}")
        sender.producer.init_transactions(20)
        sender.producer.begin_transaction()
        sender.send(range(10))
        rule = cluster.proxy.add(Rule(action=Action.HOLD_DETACH, request=Api.END_TXN, client=sender.client, count=1))
        sender.producer.commit_transaction(20)
        assert cluster.proxy.witness(rule) == (1, 0)
        cluster.await_read(topic, once(range(10)))  # a commit returns before its markers are written
        sender.producer.begin_transaction()
        sender.send(range(10, 20))
        assert cluster.read(topic) == once(range(10))
        return sender, rule

    def test_released_it_commits_half_of_the_next_transaction(self, cluster: Cluster, topic: str) -> None:
        sender, rule = self.held_end(cluster, topic)
        cluster.proxy.release(rule)
        assert cluster.proxy.wait_done(rule) == (1, 1)
        cluster.await_read(topic, once(range(20)))
        with suppress(KafkaException):  # the broker may say that there is nothing to abort: it is too late
            sender.producer.abort_transaction(20)
        assert cluster.read(topic) == once(range(20))

    def test_never_released_it_does_nothing(self, cluster: Cluster, topic: str) -> None:
        sender, rule = self.held_end(cluster, topic)
        cluster.proxy.cut(BROKER)
        sender.producer.abort_transaction(20)
        assert cluster.proxy.witness(rule) == (1, 0)
        assert cluster.read(topic) == once(range(10))


class TestRequestThatDoesNotArrive:
    def test_dropped_without_acknowledgements_it_is_lost_though_sent(self, cluster: Cluster, topic: str) -> None:
        sender = cluster.warm_sender(topic, acks=0, enable_idempotence=False)
        rule = cluster.proxy.add(Rule(action=Action.DROP, request=Api.PRODUCE, client=sender.client, count=1))
        sender.send(range(2, 102, 2))
        cluster.proxy.wait_done(rule)
        sender.send(range(102, 104))
        assert cluster.proxy.witness(rule) == (1, 1)
        assert set(sender.outcomes.values()) == {"ok"}
        cluster.await_read(topic, once(range(2)) + once(range(102, 104)))

    def test_reset_before_it_arrived_it_is_retried_and_not_doubled(self, cluster: Cluster, topic: str) -> None:
        sender = cluster.warm_sender(topic, enable_idempotence=False)
        rule = cluster.proxy.add(Rule(action=Action.RESET, request=Api.PRODUCE, client=sender.client, count=1))
        sender.send(range(2, 102))
        assert cluster.proxy.witness(rule) == (1, 1)
        assert cluster.read(topic) == once(range(102))

    def test_held_it_is_not_in_the_log_until_released(self, cluster: Cluster, topic: str) -> None:
        sender = cluster.warm_sender(topic, linger_ms=20)
        rule = cluster.proxy.add(Rule(action=Action.HOLD, request=Api.PRODUCE, client=sender.client))
        sender.send(range(2, 102, 2), flush=False)
        sender.producer.poll(0)
        assert cluster.proxy.wait_hits(rule) == (1, 0)
        assert cluster.read(topic) == once(range(2))
        cluster.proxy.release(rule)
        assert sender.producer.flush(20) == 0
        assert cluster.proxy.witness(rule) == (1, 1)
        assert cluster.read(topic) == once(range(2)) + once(range(2, 102, 2))

    def test_held_past_the_clients_patience_it_arrives_late_and_again(self, cluster: Cluster, topic: str) -> None:
        sender = cluster.warm_sender(topic, enable_idempotence=False, socket_timeout_ms=1000)
        rule = cluster.proxy.add(Rule(action=Action.HOLD, request=Api.PRODUCE, client=sender.client, count=1))
        sender.send(range(2, 102, 2))
        assert cluster.read(topic) == once(range(2)) + once(range(2, 102, 2))
        cluster.proxy.release(rule)
        assert cluster.proxy.wait_done(rule) == (1, 1)
        assert cluster.read(topic) == once(range(2)) + once(range(2, 102, 2)) + once(range(2, 102, 2))

    def test_unanswered_by_design_a_held_one_is_done_when_delivered(self, cluster: Cluster, topic: str) -> None:
        sender = cluster.warm_sender(topic, acks=0, enable_idempotence=False, linger_ms=20)
        rule = cluster.proxy.add(Rule(action=Action.HOLD, request=Api.PRODUCE, client=sender.client))
        sender.send(range(2, 102, 2), flush=False)
        assert cluster.proxy.wait_hits(rule) == (1, 0)
        cluster.proxy.release(rule)
        assert cluster.proxy.wait_done(rule) == (1, 1)
        cluster.await_read(topic, once(range(2)) + once(range(2, 102, 2)))


class TestResponse:
    def test_of_a_request_that_is_never_answered_no_rule_waits_for_it(self, cluster: Cluster, topic: str) -> None:
        silent = cluster.warm_sender(topic, acks=0, enable_idempotence=False)
        rule = cluster.proxy.add(
            Rule(action=Action.DELAY, ms=1, direction=Direction.RESPONSE, request=Api.PRODUCE, count=1)
        )
        silent.send(range(2, 4))
        cluster.await_read(topic, once(range(4)))
        assert cluster.proxy.witness(rule) == (0, 0)
        cluster.sender(topic).send(range(4, 5))
        assert cluster.proxy.witness(rule) == (1, 1)

    @pytest.mark.parametrize("direction", list(Direction))
    def test_a_delay_takes_its_time(self, cluster: Cluster, topic: str, direction: Direction) -> None:
        sender = cluster.warm_sender(topic, linger_ms=0)
        rule = cluster.proxy.add(
            Rule(action=Action.DELAY, ms=400, direction=direction, request=Api.PRODUCE, client=sender.client)
        )
        begin = time.monotonic()
        sender.send(range(2, 3))
        assert time.monotonic() - begin >= 0.4
        assert cluster.proxy.witness(rule) == (1, 1)

    def test_dropped_the_client_gives_up_by_itself_and_sends_again(self, cluster: Cluster, topic: str) -> None:
        sender = cluster.warm_sender(topic, enable_idempotence=False, socket_timeout_ms=1000)
        rule = cluster.proxy.add(Rule(action=Action.DROP, direction=Direction.RESPONSE, request=Api.PRODUCE, count=1))
        sender.send(range(2, 102, 2))
        assert cluster.proxy.witness(rule) == (1, 1)
        assert cluster.read(topic) == once(range(2)) + once(range(2, 102, 2)) + once(range(2, 102, 2))


class TestListener:
    def test_after_a_cut_the_client_comes_back(self, cluster: Cluster, topic: str) -> None:
        sender = cluster.warm_sender(topic)
        before = cluster.proxy.connections(BROKER)
        cluster.proxy.cut(BROKER)
        sender.send(range(2, 102))
        assert before >= 1
        assert cluster.read(topic) == once(range(102))

    def test_in_a_black_hole_records_time_out(self, cluster: Cluster, topic: str) -> None:
        sender = cluster.warm_sender(topic, message_timeout_ms=1000)
        cluster.proxy.block(BROKER)
        sender.send(range(2, 4))
        assert sender.outcomes == {0: "ok", 1: "ok", 2: "_MSG_TIMED_OUT", 3: "_MSG_TIMED_OUT"}
        assert cluster.read(topic) == once(range(2))
        cluster.proxy.cut(BROKER)
        cluster.proxy.unblock(BROKER)
        sender.send(range(4, 6))
        assert cluster.read(topic) == once(range(2)) + once(range(4, 6))

    def test_one_way_the_records_arrive_and_nobody_knows(self, cluster: Cluster, topic: str) -> None:
        sender = cluster.warm_sender(topic, message_timeout_ms=1500)
        cluster.proxy.block(BROKER, direction=Direction.RESPONSE)
        sender.send(range(2, 4))
        assert sender.outcomes == {0: "ok", 1: "ok", 2: "_MSG_TIMED_OUT", 3: "_MSG_TIMED_OUT"}
        assert cluster.read(topic) == once(range(4))

    def test_what_came_through_is_counted(self, cluster: Cluster, topic: str) -> None:
        sender = cluster.warm_sender(topic, linger_ms=0)
        before = cluster.proxy.seen()[BROKER, "PRODUCE"]
        sender.send(range(2, 3))
        assert cluster.proxy.seen()[BROKER, "PRODUCE"] == before + 1
        assert cluster.proxy.seen()[BROKER, "API_VERSIONS"] >= 1
