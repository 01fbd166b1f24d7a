"""Members that come, go, stall and are replaced, and brokers that die under them: lost and doubled by id."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError

from consuming.groups import Group
from consuming.members import at_work, numbers
from fencepost.engines.python.commits import Commit
from fencepost.engines.python.consumer import Consumption
from fencepost.engines.python.events import Event
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import wait_until
from fencepost.kafka.groups import describe_group
from fencepost.kafka.names import group_of
from fencepost.lab.crash import standing
from fencepost.lab.proxy import Action, Api, Rule
from fencepost.lab.scenarios.field import Field
from fencepost.local import Stack
from fencepost.run.pipeline import Pipeline

AMO, ALO = Guarantee.AT_MOST_ONCE, Guarantee.AT_LEAST_ONCE
proof = pytest.mark.proof
PATIENCE = 60.0
SOON = {"session.timeout.ms": "2000", "heartbeat.interval.ms": "300"}
EVERY = [(ALO, Commit.SYNC), (ALO, Commit.ASYNC), (ALO, Commit.AUTO), (AMO, Commit.SYNC), (AMO, Commit.ASYNC)]
SHARED_OUT: dict[str, dict[str, str]] = {
    "range": {"partition.assignment.strategy": "range"},
    "cooperative-sticky": {},
    "KIP-848": {"group.protocol": "consumer"},
}


class Load:
    """Events that come for as long as somebody waits, and who saw them."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.count = 0
        self.seen: list[tuple[str, int]] = []

    def more(self, events: int = 60) -> None:
        self.group.produce(range(self.count, self.count + events))
        self.count += events

    def handler(self, who: str) -> Callable[[list[Event]], None]:
        def handle(events: list[Event]) -> None:
            self.seen.extend((who, number) for number in numbers(events))
            time.sleep(0.05)  # the handler is slow, nothing is waited for

        return handle

    def reaches(self, who: str) -> bool:
        if self.count - len(self.seen) < 60:  # something must be left, however long joining takes
            self.more()
        return any(one == who for one, _ in self.seen)

    def all_seen(self) -> bool:
        return len({number for _, number in self.seen}) == self.count

    def lost_and_doubled(self) -> tuple[int, int]:
        different = {number for _, number in self.seen}
        return self.count - len(different), len(self.seen) - len(different)


@pytest.fixture
def three(field: Field, tmp_path: Path) -> Group:
    """Three partitions."""
    return Group(field.stack, tmp_path, 3)


def member(load: Load, who: str, guarantee: Guarantee, commit: Commit, **kafka: str) -> Consumption:
    group = load.group
    settings = ConsumerSettings({**group.kafka, **kafka}, group.name, group.name, guarantee, commit, batch=10)
    return Consumption(settings, load.handler(who))


def joins() -> Iterator[Any]:
    """Every style under every way of sharing out; each half is also in the short run."""
    short = {("at-least-once", "async", "range"), ("at-most-once", "async", "KIP-848")}
    for guarantee, commit in EVERY:
        for name, more in SHARED_OUT.items():
            marks = () if (guarantee, commit, name) in short else proof
            yield pytest.param(guarantee, commit, more, marks=marks, id=f"{guarantee}-{commit}-{name}")


@pytest.mark.parametrize(("guarantee", "commit", "more"), list(joins()))
def test_a_second_and_a_third_member_join_and_leave_and_nothing_is_lost_or_doubled(
    three: Group, guarantee: Guarantee, commit: Commit, more: dict[str, str]
) -> None:
    load = Load(three)
    load.more(120)
    with at_work(member(load, "first", guarantee, commit, **more)):
        assert wait_until(lambda: load.reaches("first"), PATIENCE)
        with at_work(member(load, "second", guarantee, commit, **more)):
            assert wait_until(lambda: load.reaches("second"), PATIENCE)
            with at_work(member(load, "third", guarantee, commit, **more)):
                assert wait_until(lambda: load.reaches("third"), PATIENCE)
        assert wait_until(load.all_seen, PATIENCE), load.lost_and_doubled()
    assert load.lost_and_doubled() == (0, 0)


def test_a_partition_that_went_while_its_member_was_busy_is_read_when_it_comes_back(three: Group) -> None:
    """librdkafka keeps a partition paused when it goes, and it is paused when it comes back."""
    load, busy, free = Load(three), threading.Event(), threading.Event()

    def slow_once(events: list[Event]) -> None:
        busy.set()
        assert free.wait(PATIENCE)  # meanwhile the member is paused
        load.handler("first")(events)

    load.more()
    kafka = {**three.kafka, **SOON}
    settings = ConsumerSettings(kafka, three.name, three.name, ALO, Commit.SYNC, batch=10, revoke_seconds=1.0)
    with at_work(Consumption(settings, slow_once)):
        assert busy.wait(PATIENCE)
        with at_work(member(load, "second", ALO, Commit.SYNC, **SOON)):
            assert wait_until(lambda: load.reaches("second"), PATIENCE)
            free.set()
            assert wait_until(lambda: load.reaches("first"), PATIENCE)
        load.more()
        assert wait_until(load.all_seen, PATIENCE)


@proof
@pytest.mark.parametrize("way", ["cooperative-sticky", "KIP-848"])
@pytest.mark.parametrize(("guarantee", "commit"), EVERY)
def test_a_storm_of_joins(three: Group, guarantee: Guarantee, commit: Commit, way: str) -> None:
    more = SHARED_OUT[way]
    load = Load(three)
    load.more(120)
    with at_work(member(load, "first", guarantee, commit, **more)):
        assert wait_until(lambda: load.reaches("first"), PATIENCE)
        for _ in range(2):
            with ExitStack() as storm:
                for number in range(6):
                    storm.enter_context(at_work(member(load, str(number), guarantee, commit, **more)))
                    load.more(20)
        settled = wait_until(load.all_seen, PATIENCE)
        assert settled or guarantee is AMO
    lost, doubled = load.lost_and_doubled()
    assert lost == 0 if guarantee is ALO else doubled == 0


def test_control_without_a_commit_at_the_revoke_what_was_read_is_read_twice(three: Group) -> None:
    group, seen = three, list[int]()
    group.produce(range(90))
    plain = {"group.id": group.name, "enable.auto.commit": False, "auto.offset.reset": "earliest"}

    @contextmanager
    def joined() -> Iterator[Consumer]:
        consumer = Consumer({**group.kafka, **plain})
        consumer.subscribe([group.name])
        yield consumer
        consumer.close()

    def read(consumer: Consumer) -> list[KafkaError | None]:
        messages = consumer.consume(30, 0.1)
        seen.extend(int(message.value() or b"") for message in messages if message.error() is None)
        return [message.error() for message in messages]

    with joined() as first:
        assert wait_until(lambda: bool(read(first)) and len(set(seen)) == 90, PATIENCE) or len(set(seen)) == 90
        with joined() as second:
            assert wait_until(lambda: bool(read(first)) or bool(read(second)), PATIENCE)
    assert len(seen) > len(set(seen)) == 90


@pytest.mark.parametrize("commit", [pytest.param("sync", marks=proof), "async"])
def test_at_most_once_a_member_that_stalls_and_wakes_up_doubles_nothing(
    behind_proxies: Group, tmp_path: Path, commit: str
) -> None:
    group, witness = behind_proxies, tmp_path / "witness"
    group.produce(range(60))
    stalled = {**SOON, "max.poll.interval.ms": "2000"}
    work: dict[str, Any] = {"guarantee": "at-most-once", "commit": commit, "settings": stalled}
    with group.process(**work, crash=["advanced", "stop", str(witness), 2]) as zombie:
        zombie.wait_until(lambda: standing(witness), "it has committed and not processed")
        with group.process(**work) as successor:
            assert successor.ended() == 0, successor.log.read_text()
        zombie.wake()
        assert zombie.ended() == 0, zombie.log.read_text()
    assert group.doubled() == 0
    if commit == "sync":
        assert group.lost(60) == 0  # what it had committed, it does


@pytest.mark.parametrize(
    ("guarantee", "commit"), [pytest.param(*one, marks=() if one == (AMO, Commit.ASYNC) else proof) for one in EVERY]
)
@pytest.mark.proof
def test_the_broker_that_keeps_the_group_is_killed(
    field: Field, behind_proxies: Group, guarantee: Guarantee, commit: Commit
) -> None:
    load = Load(behind_proxies)
    load.more(60)
    with at_work(member(load, "first", guarantee, commit)):
        assert wait_until(lambda: load.reaches("first"), PATIENCE)
        keeper = describe_group(behind_proxies.cluster, behind_proxies.name).coordinator
        node = next(node for node in field.stack.brokers.values() if node.node_id == keeper)
        node.kill()
        try:
            load.more(60)
            last = load.count - 1
            assert wait_until(lambda: any(number == last for _, number in load.seen), PATIENCE)
        finally:
            node.restart()
            field.stack.wait_in_sync()
    lost, doubled = load.lost_and_doubled()
    assert lost == 0 if guarantee is ALO else doubled == 0


def test_a_static_member_that_is_restarted_keeps_its_partitions_and_disturbs_nobody(field: Field, three: Group) -> None:
    load = Load(three)
    load.more(60)
    other = {"client.id": f"{three.name}-other", "group.instance.id": "other", "session.timeout.ms": "20000"}
    mine = {"group.instance.id": "mine", "session.timeout.ms": "20000"}
    with at_work(member(load, "other", ALO, Commit.SYNC, **other)):
        with at_work(member(load, "mine", ALO, Commit.SYNC, **mine)):
            assert wait_until(lambda: load.reaches("other") and load.reaches("mine"), PATIENCE)
        joins = field.proxy.add(Rule(action=Action.FORWARD, request=Api.JOIN_GROUP, client=other["client.id"]))
        with at_work(member(load, "mine again", ALO, Commit.SYNC, **mine)):
            assert wait_until(lambda: load.reaches("mine again"), PATIENCE)
            assert wait_until(load.all_seen, PATIENCE)
        assert field.proxy.witness(joins).hits == 0
    assert load.lost_and_doubled() == (0, 0)


def test_a_second_process_under_the_same_instance_id_ends_the_first_one_and_that_is_said(behind_proxies: Group) -> None:
    group = behind_proxies
    group.produce(range(20))
    work: dict[str, Any] = {"guarantee": "at-least-once", "settings": {**SOON, "group.instance.id": "mine"}}
    with group.process(**work, once=False) as first:
        first.wait_until(lambda: len(group.did()) == 20, "it has read everything")
        with group.process(**work, once=False) as second:
            assert first.ended() == 4, first.log.read_text()
            assert "group.instance.id" in first.log.read_text()
            group.produce(range(20, 40))
            second.wait_until(lambda: len(group.did()) == 40, "it has read the rest")
    assert (group.lost(40), group.doubled()) == (0, 0)


@pytest.mark.proof
def test_who_has_ended_is_not_waited_for_by_the_group(stack: Stack, tmp_path: Path) -> None:
    group = Group(stack, tmp_path, partitions=24)  # the more there is to let go, the easier the driver ends too early
    sink = {"format": "postgres", "options": {"table": group.name.replace("-", "_"), "dsn": stack.dsn}}
    spec = {"name": group.name, "guarantee": "exactly-once", "engine": "python", "kafka": group.kafka, "sink": sink}
    for _ in range(12):
        group.produce(range(24))
        Pipeline(spec | {"source": {"topic": group.name}}).run(once=True)
        assert describe_group(group.cluster, group_of(group.name)).members == ()
