"""Groups of others: a pipeline never writes over offsets that it did not commit, whatever the name of the group."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as DriverPartition

from consuming.relays import Relay
from fencepost.admin.stored import stored_state
from fencepost.errors import PositionLost
from fencepost.kafka.client import wait_until
from fencepost.kafka.mirror import MARK, Mirror
from fencepost.kafka.names import group_of
from fencepost.local import Stack
from fencepost.spec import load
from remedies.following import commands, follow


def _commit(relay: Relay, group: str, *offsets: int) -> None:
    """As a consumer of somebody else's."""
    with closing(Consumer({**relay.kafka, "group.id": group})) as consumer:
        wanted = [DriverPartition(relay.name, number, offset) for number, offset in enumerate(offsets)]
        consumer.commit(offsets=wanted, asynchronous=False)


def _committed(relay: Relay, group: str) -> dict[int, tuple[int, str]]:
    with closing(Consumer({**relay.kafka, "group.id": group})) as consumer:
        wanted = [DriverPartition(relay.name, number) for number in range(relay.partitions)]
        return {at.partition: (at.offset, at.metadata or "") for at in consumer.committed(wanted, timeout=30)}


def test_a_consumer_group_that_has_the_pipelines_name_keeps_its_offsets(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path)
    relay.produce(range(40))
    _commit(relay, relay.name, 3, 4)
    relay.run()
    assert _committed(relay, relay.name) == {0: (3, ""), 1: (4, "")}
    assert _committed(relay, group_of(relay.name)) == {0: (20, MARK), 1: (20, MARK)}


def test_offsets_of_others_in_the_pipelines_own_group_stay_and_the_run_says_so(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path)
    relay.produce(range(40))
    _commit(relay, group_of(relay.name), 3, 4)
    run = relay.run()
    assert run.rows == 40
    assert _committed(relay, group_of(relay.name)) == {0: (3, ""), 1: (4, "")}
    assert "not ours" in run.batches()[-1].complaint


def test_a_mirror_writes_over_nothing_that_is_not_its_own(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path)
    group = group_of(relay.name)
    _commit(relay, group, 3)
    with closing(Mirror(relay.kafka, group)) as mirror:
        mirror.show({relay.partition(0): 0, relay.partition(1): 0})
        assert wait_until(lambda: "not ours" in mirror.complaint, 30), mirror.complaint
    assert _committed(relay, group) == {0: (3, ""), 1: (0, MARK)}


@pytest.mark.parametrize("count", [40])
def test_a_ledger_in_a_group_of_somebody_else_is_refused_with_a_remedy_that_works(
    stack: Stack, tmp_path: Path, count: int
) -> None:
    relay = Relay(stack, tmp_path, sink="kafka")
    relay.produce(range(count))
    _commit(relay, group_of(relay.name), 5, 6)
    with pytest.raises(PositionLost, match="no pipeline stored") as refused:
        relay.run()
    assert _committed(relay, group_of(relay.name)) == {0: (5, ""), 1: (6, "")}
    assert commands(refused.value) == [f"fencepost positions set --topic {relay.name} --to 0:5,1:6"]
    follow(refused.value, relay.declare())
    assert stored_state(load(relay.declare())).positions == {relay.partition(0): 5, relay.partition(1): 6}
    relay.run()
    assert sorted(relay.arrived()) == sorted([*range(10, count, 2), *range(13, count, 2)])
