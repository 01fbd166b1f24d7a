"""What the changelog says to type after an upgrade, followed: rows are neither lost nor doubled."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as DriverPartition

from consuming.relays import Relay
from fencepost.admin.import_positions import find
from fencepost.errors import PositionLost, Unreachable
from fencepost.kafka import client
from fencepost.kafka.names import group_of
from fencepost.local import Stack
from fencepost.spec import load
from remedies.following import type_in

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def _as_older_versions_left_it(relay: Relay) -> None:
    """The positions, with their notes, in the group of the pipeline's bare name, and nowhere else."""
    places = [DriverPartition(relay.name, number) for number in range(relay.partitions)]
    with closing(Consumer({**relay.kafka, "group.id": group_of(relay.name)})) as new:
        stored = new.committed(places, timeout=30)
    with closing(Consumer({**relay.kafka, "group.id": relay.name})) as old:
        old.commit(offsets=stored, asynchronous=False)
    relay.cluster.admin.delete_consumer_groups([group_of(relay.name)])[group_of(relay.name)].result(30)


@pytest.fixture
def relay(stack: Stack, tmp_path: Path) -> Relay:
    relay = Relay(stack, tmp_path, sink="kafka")
    relay.produce(range(40))
    relay.run()
    _as_older_versions_left_it(relay)
    relay.produce(range(40, 60))
    return relay


def test_positions_of_a_kafka_sink_are_carried_over_by_the_changelogs_command(relay: Relay) -> None:
    with pytest.raises(PositionLost, match="is not empty"):
        relay.run()
    (command,) = re.findall(r"`(fencepost positions import [^`]*group:NAME)`", CHANGELOG.read_text())
    relay.declare().rename(relay.folder / "fencepost.yml")
    type_in(command.replace("NAME", relay.name), relay.folder)
    relay.run()
    assert relay.arrived() == Counter(range(60))


@pytest.mark.proof
def test_while_a_transaction_holds_the_old_positions_none_is_taken_from_them(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old run that is stopped may have committed what its group does not show yet."""
    monkeypatch.setattr(client, "ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(client, "TIMEOUT_SECONDS", 3.0)
    spec = load(relay.declare())
    with closing(Consumer({**relay.kafka, "group.id": relay.name})) as reader:
        group = reader.consumer_group_metadata()
    last = Producer({"bootstrap.servers": relay.stack.bootstrap_servers, "transactional.id": relay.name})
    last.init_transactions(30)
    last.begin_transaction()
    last.send_offsets_to_transaction([DriverPartition(relay.name, 0, 25)], group)
    with pytest.raises(Unreachable, match="an open transaction may hold them"):
        find(spec, f"group:{relay.name}")
    last.commit_transaction(30)
    assert find(spec, f"group:{relay.name}").positions == {relay.name: {0: 25, 1: 20}}
