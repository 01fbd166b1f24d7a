"""A static member's name belongs to the member: clients that only read or move the group's offsets never say it."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from threading import Event as Flag
from threading import Timer

import pytest

from consuming.relays import Relay
from fencepost.kafka.client import Cluster
from fencepost.kafka.mirror import Mirror
from fencepost.local import Stack
from fencepost.model import TopicPartition
from fencepost.producing.source_position import SourcePosition, StoredPlace
from fencepost.run.pipeline import Pipeline

STATIC = {"group.instance.id": "one"}
ENOUGH_SECONDS = 60.0


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.proof)])
def test_a_static_member_carries_into_a_topic(stack: Stack, tmp_path: Path, protocol: str) -> None:
    relay = Relay(stack, tmp_path, sink="kafka")
    modern = {"bootstrap.servers": stack.bootstrap_servers, "group.protocol": "consumer"}
    relay.kafka = {**(modern if protocol == "consumer" else relay.kafka), **STATIC}
    relay.produce(range(30))
    stop = Flag()
    watch = Timer(ENOUGH_SECONDS, stop.set)
    watch.start()
    try:
        Pipeline(str(relay.declare()), stop=stop).run(once=True)
    finally:
        watch.cancel()
    assert not stop.is_set(), "nothing was carried"
    relay.kafka.pop("group.instance.id")
    assert relay.arrived() == Counter(range(30))


def test_a_mirror_and_a_source_position_are_no_members(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path, sink="kafka")
    static = {**relay.kafka, **STATIC}
    with closing(Mirror(static, f"{relay.name}-mirror")) as mirror:
        mirror.show({TopicPartition(relay.name, 0): 0})
    assert mirror.complaint == ""
    with closing(SourcePosition(static, relay.name, f"{relay.name}-mark")) as mark:
        mark.store({"line": 3})
        assert mark.read() == StoredPlace({"line": 3})
    assert Cluster(static).committed(f"{relay.name}-mirror") == {TopicPartition(relay.name, 0): 0}
