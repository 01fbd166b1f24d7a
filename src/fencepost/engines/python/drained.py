"""When a member that should end is done though it was not given everything.

Given nothing: as soon as the whole group is where the topic ended when the member began. Given a part: as soon as the
rest is done too, or its members are seen to process it. A member that was killed holds its partitions until its
session times out, and nobody processes them meanwhile; then the group gives them to those who are left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from time import monotonic

from fencepost.engines.listener import NotDrained
from fencepost.errors import Fenced, Unknown, Unreachable
from fencepost.kafka.client import Cluster
from fencepost.kafka.errors import Missing
from fencepost.kafka.groups import describe_group
from fencepost.kafka.offsets import TopicReader
from fencepost.model import TopicPartition

LOOK_SECONDS = 1.0
GRACE_SECONDS = 5.0  # until the group has noticed that a session is over, and has shared the partitions out again
_TROUBLE = (Fenced, Missing, Unknown, Unreachable)


class EndOffsets:
    """The ends of all partitions as they were, against the positions that the group has stored now."""

    def __init__(
        self, topic: TopicReader, stands: Callable[[], Mapping[TopicPartition, int]], listed: Callable[[], bool]
    ) -> None:
        partitions = topic.require_same()
        self._first, _ = topic.bounds(partitions)
        self._ends = topic.stable_ends(partitions)
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
        except _TROUBLE:
            return False

    def among(self, partitions: Collection[TopicPartition]) -> bool:
        """Are these all that there were?"""
        return self._ends.keys() <= set(partitions)

    def missing(self, owned: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """How many offsets wait in the partitions of others. Raises where nobody answers."""
        stands = self._stands()
        waiting = {at: end - stands.get(at, self._first[at]) for at, end in self._ends.items() if at not in owned}
        return {at: offsets for at, offsets in waiting.items() if offsets > 0}


class OtherMembers:
    """What the other members do about the rest, from the moment when a member is done with its own part."""

    def __init__(
        self,
        goal: EndOffsets,
        holders: Callable[[], Mapping[TopicPartition, str]],
        seconds: float,
        tell: Callable[[str], None],
    ) -> None:
        """`seconds`: after so many a member that does not speak is missed."""
        self._goal = goal
        self._holders = holders
        self._patience = seconds + GRACE_SECONDS
        self._tell = tell
        self._first: dict[TopicPartition, int] | None = None  # what waited at the first look
        self._until = 0.0
        self._look_at = 0.0
        self.left: NotDrained | None = None  # what is not done

    def decided(self, owned: Collection[TopicPartition]) -> bool:
        """Is the rest done, or certain to be in other hands, or not to be had within that time? Looks now and then."""
        if self._goal.among(owned):
            self.left = None
            return True
        if monotonic() < self._look_at:
            return False
        self._look_at = monotonic() + LOOK_SECONDS
        try:
            missing, holders = self._goal.missing(owned), self._holders()
        except _TROUBLE:
            return self._first is not None and monotonic() > self._until
        return self._judged(missing, holders)

    def _judged(self, missing: dict[TopicPartition, int], holders: Mapping[TopicPartition, str]) -> bool:
        if not missing:
            self.left = None
            return True
        first = self._first is None
        if self._first is None:
            self._first, self._until = missing, monotonic() + self._patience
        moved = {holders.get(at) for at, before in self._first.items() if missing.get(at, 0) < before} - {None}
        moving = all(holders.get(at) in moved for at in missing)
        self.left = NotDrained(missing, moving, {at: holders[at] for at in missing if at in holders})
        if first:
            self._tell(
                f"{self.left}: waiting up to {self._patience:.0f} s until they are processed, or assigned to this "
                "member"
            )
        return moving or monotonic() > self._until


def is_listed(cluster: Cluster, group: str, member_id: str | None) -> bool:
    """Has the group settled with this member? Under KIP-848 only the brokers tell one that it was given nothing."""
    found = describe_group(cluster, group)
    return found.state == "stable" and member_id in {member.member_id for member in found.members}


def holders(cluster: Cluster, group: str) -> dict[TopicPartition, str]:
    """Who has each partition, as the group says: it does not know yet that a member was killed."""
    found = describe_group(cluster, group).partitions
    return {TopicPartition(at.topic, at.partition): at.owner.member_id for at in found if at.owner is not None}
