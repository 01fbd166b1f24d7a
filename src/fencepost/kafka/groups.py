"""Consumer groups, of the classic protocol and of KIP-848: how far each partition is read, and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaException

from fencepost.kafka.broker_views import ANSWER_SECONDS
from fencepost.kafka.client import Cluster
from fencepost.kafka.errors import Missing, failure
from fencepost.kafka.names import did_you_mean, require_group
from fencepost.kafka.topics import end_offsets
from fencepost.model import TopicPartition


@dataclass(frozen=True)
class Member:
    """One consumer of a group."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None  # its name across restarts, where it has one (static membership)


@dataclass(frozen=True)
class GroupPartition:
    """How far a group is in one partition."""

    topic: str
    partition: int
    position: int | None  # the next offset to read; None: nothing is stored
    end_offset: int | None  # None: the topic is gone, or no leader answers
    lag: int | None
    owner: Member | None


@dataclass(frozen=True)
class GroupSummary:
    """One line in the list of groups."""

    group: str
    type: str  # classic, or consumer (KIP-848)
    state: str


@dataclass(frozen=True)
class GroupDescription:
    """One group with its members and its partitions."""

    group: str
    type: str
    state: str
    assignor: str | None  # how partitions are shared out; None while there are no members
    coordinator: int  # the broker that keeps the group
    members: tuple[Member, ...]
    partitions: tuple[GroupPartition, ...]


def lag(position: int | None, end: int | None) -> int | None:
    """What is left to read, in offsets; None where one of the two is not known.

    Below zero when the stored position lies beyond the end: the topic was created again, or lost its tail.
    """
    return None if position is None or end is None else end - position


def list_groups(cluster: Cluster) -> list[GroupSummary]:
    """Every consumer group by name."""
    answer = cluster.ask(lambda: cluster.admin.list_consumer_groups(request_timeout=ANSWER_SECONDS), "the groups")
    for error in answer.errors:  # one broker's groups are missing: an incomplete list is no list
        why = error.args[0] if isinstance(error, KafkaException) else error  # the driver gives either
        raise failure(why, "the groups", cluster.servers)
    summaries = (GroupSummary(one.group_id, _word(one.type), _word(one.state)) for one in answer.valid)
    return sorted(summaries, key=lambda summary: summary.group)


def describe_group(cluster: Cluster, group: str) -> GroupDescription:
    """One group. Raises Usage, with the nearest name, when there is none of that name."""
    found = _membership(cluster, require_group(group))
    owners = {
        TopicPartition(at.topic, at.partition): _member(member)
        for member in found.members
        for at in member.assignment.topic_partitions
    }
    positions = cluster.committed(group)
    partitions = sorted(owners.keys() | positions.keys())
    ends = end_offsets(cluster, {at.topic for at in partitions})
    return GroupDescription(
        group=group,
        type=_word(found.type),
        state=_word(found.state),
        assignor=found.partition_assignor or None,
        coordinator=found.coordinator.id,
        members=tuple(_member(member) for member in found.members),
        partitions=tuple(
            GroupPartition(
                topic=at.topic,
                partition=at.partition,
                position=positions.get(at),
                end_offset=ends.get(at),
                lag=lag(positions.get(at), ends.get(at)),
                owner=owners.get(at),
            )
            for at in partitions
        ),
    )


def _membership(cluster: Cluster, group: str) -> Any:
    """The driver's description. Kafka describes a group that does not exist as a dead one."""
    try:
        found = cluster.ask(
            lambda: cluster.admin.describe_consumer_groups([group], request_timeout=ANSWER_SECONDS)[group],
            f"group {group}",
        )
    except Missing as error:
        raise _unknown_group(cluster, group) from error
    if found.state is ConsumerGroupState.DEAD:
        raise _unknown_group(cluster, group)
    return found


def _unknown_group(cluster: Cluster, group: str) -> Missing:
    names = [summary.group for summary in list_groups(cluster)]
    return Missing(
        f"there is no consumer group {group} at {cluster.servers}",
        did_you_mean(group, names, "see `fencepost group list`"),
    )


def _member(member: Any) -> Member:
    return Member(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.host.removeprefix("/"),  # as Java prints an address without a name
        instance_id=member.group_instance_id,
    )


def _word(value: Any) -> str:
    """The name of a state or type, as Kafka's documentation writes it in lower case."""
    return str(value.name).lower()
