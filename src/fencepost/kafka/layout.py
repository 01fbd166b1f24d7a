"""The cluster at one moment: brokers, controllers, who leads what, and which partitions lack something.

All topics in one request, whatever there is of them: a page of 2,000 partitions must not ask 2,000 times.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from fencepost.errors import Usage
from fencepost.kafka.errors import Forbidden, Missing
from fencepost.kafka.names import did_you_mean, require_topic
from fencepost.kafka.wire import Wire
from fencepost.model import TopicPartition

MIN_IN_SYNC = "min.insync.replicas"
_LATEST, _EARLIEST = -1, -2
_LISTS_BY_TIME = 7  # what asks for offsets, in a version that every broker since 3.0 has


@dataclass(frozen=True)
class PartitionLayout:
    """Who keeps one partition."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class TopicLayout:
    """One topic, and what is wrong with how it is kept now."""

    topic: str
    topic_id: str
    internal: bool
    partitions: tuple[PartitionLayout, ...]
    min_in_sync: int | None  # None: this user may not see it

    @property
    def replication_factor(self) -> int:
        return max((len(one.replicas) for one in self.partitions), default=0)

    @property
    def offline(self) -> int:
        """Partitions that nobody leads: they can be neither read nor written."""
        return sum(one.leader is None for one in self.partitions)

    @property
    def under_replicated(self) -> int:
        """Partitions without their full in-sync set."""
        return sum(len(one.in_sync) < len(one.replicas) for one in self.partitions)

    @property
    def under_min(self) -> int:
        """Partitions that refuse what is sent with acks=all."""
        least = self.min_in_sync
        return 0 if least is None else sum(len(one.in_sync) < least for one in self.partitions)


@dataclass(frozen=True)
class BrokerState:
    """One broker, and its share of the work."""

    id: int
    host: str
    port: int
    rack: str | None
    up: bool
    leaders: int
    replicas: int
    lacking: int  # replicas of it that are not in sync
    skew: float | None  # leaders over the mean of those that are up; 1 is even


@dataclass(frozen=True)
class Voter:
    """One controller of the quorum."""

    id: int
    leads: bool
    behind: int  # records of the metadata log
    last_caught_up: datetime | None


@dataclass(frozen=True)
class Layout:
    """Everything above, at one moment."""

    cluster_id: str
    brokers: tuple[BrokerState, ...]
    topics: Mapping[str, TopicLayout]
    quorum: tuple[Voter, ...]  # empty: this user may not see it, or there are no KRaft controllers

    @cached_property
    def leaders(self) -> Mapping[TopicPartition, int]:
        """Of the partitions that have one."""
        return {
            TopicPartition(name, part.partition): part.leader
            for name, topic in self.topics.items()
            for part in topic.partitions
            if part.leader is not None
        }


def read_layout(wire: Wire, least: Mapping[str, int] | None = None) -> Layout:
    """`least`: each topic's minimum of in-sync replicas, as `minimums` gives them."""
    about = wire.ask(lambda admin: admin.describe_cluster(), "the cluster")
    answer = wire.ask(lambda admin: admin.describe_topics(None), "the topics")
    topics = {topic["name"]: _topic(topic, least or {}) for topic in answer if not topic["error_code"]}
    brokers = _brokers(about["brokers"], [part for topic in topics.values() for part in topic.partitions])
    return Layout(about["cluster_id"] or "", brokers, dict(sorted(topics.items())), _quorum(wire))


def _topic(topic: Mapping[str, Any], least: Mapping[str, int]) -> TopicLayout:
    parts = sorted(topic["partitions"], key=lambda one: int(one["partition_index"]))
    return TopicLayout(
        topic["name"],
        _id(topic.get("topic_id")),
        bool(topic["is_internal"]),
        tuple(
            PartitionLayout(
                one["partition_index"],
                one["leader_id"] if one["leader_id"] >= 0 else None,
                tuple(one["replica_nodes"]),
                tuple(one["isr_nodes"]),
            )
            for one in parts
        ),
        least.get(topic["name"]),
    )


def _id(given: object) -> str:
    """As Kafka itself writes it."""
    return urlsafe_b64encode(UUID(str(given)).bytes).decode().rstrip("=") if given else ""


def _brokers(known: Iterable[Mapping[str, Any]], parts: Collection[PartitionLayout]) -> tuple[BrokerState, ...]:
    """Those that say so are up; those that only replicas name are down."""
    there = {one["broker_id"]: one for one in known}
    leading = Counter(one.leader for one in parts if one.leader is not None)
    holding = Counter(broker for one in parts for broker in one.replicas)
    lacking = Counter(broker for one in parts for broker in set(one.replicas) - set(one.in_sync))
    up = [broker for broker, one in there.items() if not one.get("is_fenced")]
    mean = sum(leading[broker] for broker in up) / len(up) if up else 0
    return tuple(
        BrokerState(
            id=broker,
            host=str(there[broker]["host"]) if broker in there else "",
            port=int(there[broker]["port"]) if broker in there else 0,
            rack=there[broker].get("rack") if broker in there else None,
            up=broker in up,
            leaders=leading[broker],
            replicas=holding[broker],
            lacking=lacking[broker],
            skew=leading[broker] / mean if mean and broker in up else None,
        )
        for broker in sorted({*there, *holding})
    )


def _quorum(wire: Wire) -> tuple[Voter, ...]:
    try:
        answer = wire.ask(lambda admin: admin.describe_metadata_quorum(), "the controllers")
    except (Forbidden, Usage):
        return ()
    found = answer["topics"][0]["partitions"][0]
    ends = [one["log_end_offset"] for one in found["current_voters"]]
    return tuple(
        Voter(
            one["replica_id"],
            one["replica_id"] == found["leader_id"],
            max(max(ends) - one["log_end_offset"], 0),
            _time(one.get("last_caught_up_timestamp") or -1),
        )
        for one in sorted(found["current_voters"], key=lambda one: int(one["replica_id"]))
    )


def _time(ms: int) -> datetime | None:
    return datetime.fromtimestamp(ms / 1000, UTC) if ms >= 0 else None


def leaders_of(wire: Wire, topics: Iterable[str] | None) -> dict[TopicPartition, int]:
    """Who leads the partitions of these topics, or of all. Raises Missing, with the nearest name."""
    names = None if topics is None else sorted({require_topic(name) for name in topics})
    found = wire.ask(lambda admin: admin.describe_topics(names), "the topics")
    for topic in found:
        if topic["error_code"] and names is not None:
            known = [one["name"] for one in wire.ask(lambda admin: admin.describe_topics(None), "the topics")]
            near = did_you_mean(topic["name"], known, "see `fencepost topic list`")
            raise Missing(f"there is no topic {topic['name']}", near)
    return _led(found)


def leaders(wire: Wire, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Who leads these topics' partitions now, without those that nobody leads."""
    topics = sorted({at.topic for at in partitions})
    return _led(wire.ask(lambda admin: admin.describe_topics(topics), "the topics")) if topics else {}


def _led(found: Iterable[Mapping[str, Any]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic["name"], part["partition_index"]): part["leader_id"]
        for topic in found
        for part in topic["partitions"]
        if part["leader_id"] >= 0
    }


def minimums(wire: Wire, topics: Iterable[str]) -> dict[str, int]:
    """Each topic's least number of in-sync replicas; without those that this user may not see."""
    from kafka.admin import ConfigResource

    wanted = [ConfigResource("TOPIC", name, {MIN_IN_SYNC: None}) for name in topics]
    if not wanted:
        return {}
    try:
        found = wire.ask(lambda admin: admin.describe_configs(wanted, config_filter="all"), "the topics' settings")
    except Forbidden:
        return {}
    return {
        name: int(entries[MIN_IN_SYNC]["value"])
        for name, entries in found.get("topic", {}).items()
        if MIN_IN_SYNC in entries
    }


def list_offsets(
    wire: Wire,
    led: Mapping[TopicPartition, int],
    *,
    stable: bool = False,
    first: bool = False,
    at_ms: int | None = None,
) -> dict[TopicPartition, int]:
    """The end of each partition, or its last stable offset, or its first, or that of a time (-1: nothing is so young).

    In one request to each leader; without the partitions of which it says nothing.
    """
    from kafka.protocol.consumer import ListOffsetsRequest

    wanted: dict[int, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    when = at_ms if at_ms is not None else _EARLIEST if first else _LATEST
    for at, leader in led.items():
        part = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=at.partition, current_leader_epoch=-1, timestamp=when
        )
        wanted[leader][at.topic].append(part)
    requests = {leader: _offsets_request(topics, stable) for leader, topics in wanted.items()}
    return {
        TopicPartition(topic.name, part.partition_index): part.offset
        for answer in wire.send(requests, "the offsets").values()
        for topic in answer.topics
        for part in topic.partitions
        if not part.error_code
    }


def _offsets_request(topics: Mapping[str, list[Any]], stable: bool) -> Any:
    from kafka.protocol.consumer import ListOffsetsRequest

    named = [ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()]
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=int(stable), topics=named, min_version=2, max_version=_LISTS_BY_TIME
    )
