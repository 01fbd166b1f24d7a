"""Remedies about positions, followed: afterwards nothing is lost but what the remedy said, and nothing is doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from consuming.relays import Relay
from fencepost.admin.positions import carry_out, propose
from fencepost.admin.stored import set_positions, stored_state
from fencepost.engines.python import member
from fencepost.errors import Fenced, PositionLost, RecordsGone, TopicRecreated, Usage
from fencepost.kafka.topics import delete_topic
from fencepost.local import Stack
from fencepost.spec import load
from remedies.following import commands, follow
from spark.drivers import wait_for

SINKS = ["postgres", pytest.param("kafka", marks=pytest.mark.proof)]


@pytest.fixture
def relay(stack: Stack, tmp_path: Path) -> Relay:
    return _relay(stack, tmp_path, "postgres")


def _relay(stack: Stack, folder: Path, sink: str) -> Relay:
    relay = Relay(stack, folder, 3, sink=sink)
    relay.produce(range(60))
    relay.run()
    return relay


def _assert_arrived(relay: Relay, ids: Iterable[int]) -> None:
    assert relay.arrived() == Counter(ids)


@pytest.mark.parametrize("sink", SINKS)
def test_records_that_are_gone_are_skipped_and_nothing_else_moves(stack: Stack, tmp_path: Path, sink: str) -> None:
    relay = _relay(stack, tmp_path, sink)
    relay.produce(range(60, 120))
    relay.delete_before(0, 25)
    relay.delete_before(2, 30)
    with pytest.raises(RecordsGone) as gone:
        relay.run()
    assert commands(gone.value) == [f"fencepost positions set --topic {relay.name} --to 0:25,2:30"]
    follow(gone.value, relay.declare())
    relay.run()
    lost = {*range(60, 75, 3), *range(62, 92, 3)}  # five of the first partition, ten of the last
    _assert_arrived(relay, set(range(120)) - lost)


@pytest.mark.parametrize("sink", SINKS)
def test_a_position_beyond_the_end_goes_to_the_end_of_its_partition(stack: Stack, tmp_path: Path, sink: str) -> None:
    relay = _relay(stack, tmp_path, sink)
    relay.produce(range(60, 120))
    spec = load(relay.declare())
    _as_if_the_tail_were_lost(relay, spec)
    with pytest.raises(PositionLost) as lost:
        relay.run()
    assert commands(lost.value) == [f"fencepost positions set --topic {relay.name} --to 1:40"]
    assert "skips" in lost.value.remedy
    follow(lost.value, relay.declare())
    relay.produce(range(120, 150))
    relay.run()
    _assert_arrived(relay, [id_ for id_ in range(150) if not (60 <= id_ < 120 and id_ % 3 == 1)])


def _as_if_the_tail_were_lost(relay: Relay, spec: Any) -> None:
    """A position behind the end cannot be set by the command, as it should be."""
    at = relay.partition(1)
    kept = {relay.partition(0): 0, relay.partition(2): 0}
    ids = {at.topic: held.topic_id or "" for at, held in stored_state(spec).stored.items()}
    set_positions(spec, {at: 70}, ids, kept)


@pytest.mark.parametrize("sink", SINKS)
def test_a_topic_that_was_created_again_is_read_from_its_start(stack: Stack, tmp_path: Path, sink: str) -> None:
    relay = _relay(stack, tmp_path, sink)
    delete_topic(relay.cluster, relay.name)
    relay.make_topic()
    relay.produce(range(100, 130))
    with pytest.raises(
        PositionLost if sink == "kafka" else TopicRecreated
    ) as anew:  # Kafka forgets offsets with topics
        relay.run()
    if sink == "postgres":
        spec = load(relay.declare())
        start, end = propose(spec, "earliest"), propose(spec, "latest")
        assert [(each.skipped, each.repeated, each.recreated) for each in (start, end)] == [
            (0, 0, [relay.name]),  # none of these records was ever read
            (30, 0, [relay.name]),
        ]
    follow(anew.value, relay.declare())
    relay.run()
    _assert_arrived(relay, [*range(60), *range(100, 130)])


@pytest.mark.proof
def test_a_topic_created_again_with_fewer_partitions_is_read_from_its_start(relay: Relay) -> None:
    delete_topic(relay.cluster, relay.name)
    relay.partitions = 1
    relay.make_topic()
    relay.produce(range(100, 130))
    with pytest.raises(TopicRecreated) as anew:
        relay.run()
    follow(anew.value, relay.declare())
    relay.run()
    _assert_arrived(relay, [*range(60), *range(100, 130)])


@pytest.mark.parametrize("sink", SINKS)
def test_partitions_that_nobody_names_stay_where_a_run_has_put_them_meanwhile(
    stack: Stack, tmp_path: Path, sink: str
) -> None:
    relay = _relay(stack, tmp_path, sink)
    spec = load(relay.declare())
    proposal = propose(spec, {2: 10})  # a person looks at it, and a run goes on meanwhile
    relay.produce(range(60, 90))
    relay.run()
    carry_out(spec, proposal)
    assert stored_state(spec).positions == {relay.partition(0): 30, relay.partition(1): 30, relay.partition(2): 10}
    relay.run()
    _assert_arrived(relay, [*range(90), *range(32, 90, 3)])


def test_a_run_that_is_under_way_ends_as_fenced_whichever_partition_was_named(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member, "FENCED_SECONDS", 2.0)
    with relay.running() as running:
        wait_for(lambda: running.news, "it has begun")
        carry_out(load(relay.declare()), propose(load(relay.declare()), {2: 20}))
        relay.produce(range(60, 90))
        wait_for(lambda: running.failure, "it was fenced")
    assert isinstance(running.failure, Fenced)
    relay.run()
    _assert_arrived(relay, range(90))


def test_offsets_name_every_partition_where_nobody_knows_how_far_the_others_were_read(relay: Relay) -> None:
    relay.sql("DELETE FROM fencepost.positions WHERE pipeline = %s", relay.name)
    with pytest.raises(PositionLost, match="holds rows"):
        relay.run()
    with pytest.raises(Usage, match="partitions 0, 2"):
        propose(load(relay.declare()), {1: 20})
    carry_out(load(relay.declare()), propose(load(relay.declare()), {0: 20, 1: 20, 2: 20}))
    relay.run()
    _assert_arrived(relay, range(60))
