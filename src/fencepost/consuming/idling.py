"""When a member that was given no partition is done: the whole group is where the topic ended when the member began."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic

from fencepost.cluster.client import Cluster
from fencepost.cluster.failures import Missing
from fencepost.cluster.groups import describe_group
from fencepost.cluster.positions import TopicReader
from fencepost.errors import Fenced, Unknown, Unreachable
from fencepost.model import TopicPartition

LOOK_SECONDS = 1.0


class Goal:
    """The ends of all partitions as they were, against the positions that the group has stored now."""

    def __init__(
        self, topic: TopicReader, stands: Callable[[], Mapping[TopicPartition, int]], listed: Callable[[], bool]
    ) -> None:
        _, self._ends = topic.bounds(topic.require_same())
        self._stands = stands
        self._listed = listed
        self._look_at = 0.0

    def reached(self, joined: bool) -> bool:
        """Looks now and then. False where nobody answers, where a partition has no position yet, and before it joined:
        a member that did not is not idle."""
        if monotonic() < self._look_at:
            return False
        self._look_at = monotonic() + LOOK_SECONDS
        try:
            stands = self._stands()
            done = all(stands.get(partition, -1) >= end for partition, end in self._ends.items())
            return done and (joined or self._listed())
        except (Fenced, Missing, Unknown, Unreachable):
            return False


def is_listed(cluster: Cluster, group: str, member_id: str | None) -> bool:
    """Has the group settled with this member? Under KIP-848 only the brokers tell one that it was given nothing."""
    found = describe_group(cluster, group)
    return found.state == "stable" and member_id in {member.member_id for member in found.members}
