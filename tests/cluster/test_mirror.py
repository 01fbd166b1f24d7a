"""Positions shown as a group's offsets, also while the broker that keeps them dies."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from fencepost.kafka.client import Cluster, wait_until
from fencepost.kafka.errors import Missing
from fencepost.kafka.groups import describe_group
from fencepost.kafka.mirror import Mirror
from fencepost.local import Stack
from fencepost.local.stack import Node
from fencepost.model import TopicPartition


def test_the_last_positions_are_there_when_a_mirror_is_closed(
    stack: Stack, cluster: Cluster, topic: str, produce: Callable[[int], None]
) -> None:
    produce(5)
    with closing(_mirror(stack, topic)) as mirror:
        for position in range(6):
            mirror.show({TopicPartition(topic, 0): position})
    assert _shown(cluster, topic) == 5
    assert mirror.complaint == ""


@pytest.mark.proof
def test_a_mirror_outlives_the_broker_that_coordinates_its_group(
    stack: Stack, cluster: Cluster, topic: str, produce: Callable[[int], None]
) -> None:
    produce(5)
    with closing(_mirror(stack, topic)) as mirror:
        mirror.show({TopicPartition(topic, 0): 1})
        assert wait_until(lambda: _shown(cluster, topic) == 1, 30)

        coordinator = _coordinator(stack, cluster, topic)
        coordinator.kill()
        try:
            for position in (2, 3, 4):
                mirror.show({TopicPartition(topic, 0): position})
            assert wait_until(lambda: _goes_on(mirror, cluster, topic), 90), mirror.complaint
        finally:
            coordinator.restart()
            stack.wait_in_sync(120)


def _goes_on(mirror: Mirror, cluster: Cluster, topic: str) -> bool:
    """The next batches of a run: whichever comes through, the last position is among them."""
    mirror.show({TopicPartition(topic, 0): 5})
    return _shown(cluster, topic) == 5


def _mirror(stack: Stack, group: str) -> Mirror:
    return Mirror({"bootstrap.servers": stack.bootstrap_servers}, group)


def _shown(cluster: Cluster, group: str) -> int | None:
    try:
        return {one.partition: one.position for one in describe_group(cluster, group).partitions}.get(0)
    except Missing:
        return None  # nothing was shown yet


def _coordinator(stack: Stack, cluster: Cluster, group: str) -> Node:
    number = cluster.admin.describe_consumer_groups([group])[group].result().coordinator.id
    (node,) = [node for node in stack.brokers.values() if node.node_id == number]
    return node
