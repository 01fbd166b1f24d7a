"""Topics: what there is, what each partition holds, and making or removing one until that is really done."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import IsolationLevel, TopicCollection
from confluent_kafka import TopicPartition as DriverPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from fencepost.errors import Unreachable, Usage
from fencepost.kafka.broker_views import ANSWER_SECONDS, BrokerViews
from fencepost.kafka.client import TIMEOUT_SECONDS, Cluster, wait_until
from fencepost.kafka.errors import Forbidden, Missing
from fencepost.kafka.names import did_you_mean, require_topic
from fencepost.model import TopicPartition
from fencepost.rules.topics import TopicFacts

AGREE_SECONDS = 20.0  # for brokers that have not heard of a topic, or of new partitions, when others have
DOUBT_SECONDS = 0.5  # until the second look at a topic that nobody knows: it may just have been made
LEAD_SECONDS = 3.0  # for a leader that has just become one
SETTLE_SECONDS = 30.0  # for leaders and full in-sync sets after a creation, and for the end of a deletion
MIN_IN_SYNC = "min.insync.replicas"
_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class PartitionDescription:
    """Who keeps one partition, and where it begins and ends. The offsets are None while no leader answers."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    first_offset: int | None  # the oldest record that is still there
    end_offset: int | None  # the next offset to be written
    last_stable_offset: int | None  # read_committed readers get no further: an open transaction begins here


@dataclass(frozen=True)
class TopicDescription:
    """One topic with its partitions."""

    topic: str
    topic_id: str  # another one when a topic of the same name is created again
    internal: bool
    config: Mapping[str, str] | None  # what is set on the topic itself; None: this user may not see it
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True)
class TopicSummary:
    """One line in the list of topics."""

    topic: str
    topic_id: str
    internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int  # partitions without a leader or without their full in-sync set


@dataclass(frozen=True)
class TopicSetting:
    """A setting of a topic that is not Kafka's default."""

    name: str
    value: str | None  # None: it is a secret
    own: bool  # set on the topic itself; else on the brokers


@dataclass(frozen=True)
class TopicRequest:
    """A topic to be made. Unless said otherwise it survives the loss of a broker without losing a record."""

    topic: str
    partitions: int = 3
    replication_factor: int = 3
    config: Mapping[str, str] = field(default_factory=dict)

    def full_config(self) -> dict[str, str]:
        """With a minimum of in-sync replicas; Kafka itself accepts one that the topic can never have."""
        config = {MIN_IN_SYNC: str(min(2, self.replication_factor)), **self.config}
        least = config[MIN_IN_SYNC]
        if least.isdecimal() and int(least) > self.replication_factor:
            raise Usage(
                f"{MIN_IN_SYNC}={least} with {self.replication_factor} replicas: nothing could ever be written",
                f"give at most {self.replication_factor}",
            )
        return config


def list_topics(cluster: Cluster) -> list[TopicSummary]:
    """Every topic by name, internal ones too."""
    return [_summary(layout) for _, layout in sorted(_layouts(cluster, cluster.topic_names()).items())]


def is_known(cluster: Cluster, name: str) -> bool:
    """Does the broker that happens to be asked know this topic? One that has just been made may be news to it."""
    return name in _layouts(cluster, [name])


def describe_topic(cluster: Cluster, name: str) -> TopicDescription:
    """One topic. Raises Usage, with the nearest name, when there is none of that name."""
    layout = _layout(cluster, name)
    led = _led_partitions([layout])
    first = offsets_at(cluster, led, _EARLIEST)
    # Whoever did not answer is not waited for again. The end comes last: it is never below the last stable offset.
    stable = offsets_at(cluster, first, _LATEST, IsolationLevel.READ_COMMITTED)
    end = offsets_at(cluster, stable, _LATEST)
    return TopicDescription(
        topic=name,
        topic_id=_kafka_id(layout.topic_id),
        internal=layout.is_internal,
        config=_own_config(cluster, name),
        partitions=tuple(
            PartitionDescription(
                partition=info.id,
                leader=info.leader.id if info.leader else None,
                replicas=tuple(node.id for node in info.replicas),
                in_sync=tuple(node.id for node in info.isr),
                first_offset=first.get(TopicPartition(name, info.id)),
                end_offset=end.get(TopicPartition(name, info.id)),
                last_stable_offset=stable.get(TopicPartition(name, info.id)),
            )
            for info in layout.partitions
        ),
    )


def end_offsets(cluster: Cluster, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """Where the partitions of these topics end. Topics that are gone and partitions without leader lack."""
    return offsets_at(cluster, _led_partitions(_layouts(cluster, topics).values()), _LATEST)


def topic_id_and_partitions(cluster: Cluster, name: str, seen: int = 1) -> tuple[str, list[int]]:
    """What tells this topic from another of the same name, and its partitions. Raises Usage when there is none.

    `seen`: how many partitions it has been known to have. A broker that tells of fewer may not have heard of them yet.
    """
    layout = _layout(cluster, name, seen)
    return _kafka_id(layout.topic_id), sorted(info.id for info in layout.partitions)


def create_topic(cluster: Cluster, request: TopicRequest) -> None:
    """Make the topic; on return every partition has a leader and a full in-sync set, and every broker knows it.

    Raises Existing (a Usage) when there is one of that name, Unknown when it may have been made.
    """
    name, brokers = request.topic, len(cluster.brokers())
    if request.replication_factor > brokers:
        raise Usage(
            f"{request.replication_factor} replicas of {name} need as many brokers; there are {brokers}",
            f"give --replication-factor {brokers}, or start more brokers",
        )
    new = NewTopic(name, request.partitions, request.replication_factor, config=request.full_config())
    cluster.tell(lambda: cluster.admin.create_topics([new], request_timeout=TIMEOUT_SECONDS)[name], f"topic {name}")
    with cluster.views() as views:
        complete = wait_until(lambda: _is_complete(cluster, request, views), SETTLE_SECONDS)
    if not complete:
        raise Unreachable(
            f"topic {name} was created, but after {SETTLE_SECONDS:.0f} s not all replicas are in sync",
            f"check which broker is missing: fencepost topic describe {name}",
        )


def delete_topic(cluster: Cluster, name: str) -> None:
    """Remove the topic with all its records; on return it is gone. Raises Usage, with the nearest name."""
    try:
        cluster.tell(
            lambda: cluster.admin.delete_topics([name], request_timeout=TIMEOUT_SECONDS)[name], f"topic {name}"
        )
    except Missing as error:
        raise _unknown_topic(cluster, name) from error
    with cluster.views() as views:
        gone = wait_until(lambda: not _layouts(cluster, [name]) and _all_know(views, name, 0), SETTLE_SECONDS)
    if not gone:
        raise Unreachable(
            f"topic {name} still exists {SETTLE_SECONDS:.0f} s after its deletion", "see the brokers' logs"
        )


def _layout(cluster: Cluster, name: str, seen: int = 1) -> Any:
    """The driver's description of a topic with that many partitions, if any broker that answers knows of so many.

    Raises Missing when none of them knows the topic, Unreachable when they do not agree in time, or none answers.
    """
    require_topic(name)
    layout = _layouts(cluster, [name]).get(name)
    if layout is not None and len(layout.partitions) >= seen:
        return layout
    with cluster.views() as views:
        return _agreed_layout(cluster, views, name, seen)


def _agreed_layout(cluster: Cluster, views: BrokerViews, name: str, seen: int) -> Any:
    """The same, where the broker that was asked knows less: it may be late, or right."""
    deadline, doubted = time.monotonic() + AGREE_SECONDS, False
    while True:
        layout = _layouts(cluster, [name]).get(name)
        if layout is not None and len(layout.partitions) >= seen:
            return layout
        answers = views.partitions(name)
        told = max(answers, default=0)
        if told < seen and layout is not None:
            return layout
        absent = bool(answers) and told == 0
        if absent and doubted:
            raise _unknown_topic(cluster, name)
        doubted = absent
        if time.monotonic() > deadline:
            raise Unreachable(
                f"the brokers do not agree on topic {name}"
                if answers
                else f"no broker says whether there is a topic {name}",
                "see `fencepost topic list`, and their logs",
            )
        time.sleep(DOUBT_SECONDS)


def _unknown_topic(cluster: Cluster, name: str) -> Missing:
    others = [other for other in cluster.topic_names() if other != name]
    near = did_you_mean(name, others, "see `fencepost topic list`")
    return Missing(f"there is no topic {name} at {cluster.servers}", near)


def _layouts(cluster: Cluster, names: Iterable[str]) -> dict[str, Any]:
    """The driver's descriptions of these topics, without those that do not exist."""
    wanted = TopicCollection(list(names))
    return cluster.ask_each(
        lambda: cluster.admin.describe_topics(wanted, request_timeout=ANSWER_SECONDS),
        "topic " + ", ".join(wanted.topic_names),
    )


def _led_partitions(layouts: Iterable[Any]) -> list[TopicPartition]:
    """Those that can be asked for offsets now."""
    return [TopicPartition(at.name, info.id) for at in layouts for info in at.partitions if info.leader]


def offsets_at(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """One offset of each partition, as its leader knows it; without those whose leader does not answer.

    A leader that has not heard yet that it is one says that there is no such partition, and is asked again.
    """
    wanted = {DriverPartition(topic, number): spec for topic, number in partitions}
    found: dict[DriverPartition, Any] = {}

    def ask() -> bool:
        missing = {at: spec for at in wanted if at not in found}
        if missing:
            found.update(
                cluster.ask_each(
                    lambda: cluster.admin.list_offsets(
                        missing, isolation_level=isolation, request_timeout=ANSWER_SECONDS
                    ),
                    "the offsets of topic " + ", ".join(sorted({at.topic for at in missing})),
                )
            )
        return len(found) == len(wanted)

    wait_until(ask, LEAD_SECONDS)
    # -1 is an answer (no record is that young). For a leader that just died the driver gives less, and no error.
    return {TopicPartition(at.topic, at.partition): answer.offset for at, answer in found.items() if answer.offset > -2}


def topic_facts(cluster: Cluster, name: str) -> TopicFacts | None:
    """How the topic is kept, its brokers' defaults included; None where this user may not see it."""
    layout = _layouts(cluster, [name]).get(name)
    entries = _config_entries(cluster, name)
    if layout is None or entries is None:
        return None
    return TopicFacts(
        name,
        min(len(info.replicas) for info in layout.partitions),
        int(entries[MIN_IN_SYNC].value),
        entries["unclean.leader.election.enable"].value == "true",
        "compact" in entries["cleanup.policy"].value,
    )


def topic_settings(cluster: Cluster, name: str) -> list[TopicSetting] | None:
    """What differs from Kafka's defaults, the topic's own first; None where this user may not see it."""
    entries = _config_entries(cluster, name)
    if entries is None:
        return None
    own, default = ConfigSource.DYNAMIC_TOPIC_CONFIG.value, ConfigSource.DEFAULT_CONFIG.value
    found = (
        TopicSetting(key, None if entry.is_sensitive else entry.value, entry.source == own)
        for key, entry in entries.items()
        if entry.source != default
    )
    return sorted(found, key=lambda one: (not one.own, one.name))


def _own_config(cluster: Cluster, name: str) -> dict[str, str] | None:
    """What is set on the topic itself, not inherited from the brokers."""
    entries = _config_entries(cluster, name)
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    if entries is None:
        return None
    return {key: entry.value for key, entry in sorted(entries.items()) if entry.source == own}


def _config_entries(cluster: Cluster, name: str) -> Mapping[str, Any] | None:
    """Every setting that holds for the topic. Seeing them is a right of its own: None without it."""
    resource = ConfigResource(ResourceType.TOPIC, name)
    try:
        entries: Mapping[str, Any] = cluster.ask(
            lambda: cluster.admin.describe_configs([resource], request_timeout=ANSWER_SECONDS)[resource],
            f"the settings of topic {name}",
        )
    except Forbidden:
        return None
    return entries


def _kafka_id(driver_id: Any) -> str:
    """As Kafka itself writes an id: the driver has "+" and "/" where Kafka has "-" and "_"."""
    return str(driver_id).translate(str.maketrans("+/", "-_"))


def _is_complete(cluster: Cluster, request: TopicRequest, views: BrokerViews) -> bool:
    layout = _layouts(cluster, [request.topic]).get(request.topic)
    if layout is None or len(layout.partitions) != request.partitions or _lacking(layout):
        return False
    return _all_know(views, request.topic, request.partitions)


def _all_know(views: BrokerViews, name: str, partitions: int) -> bool:
    """Do all brokers that answer, and at least one does, know so many partitions of the topic?"""
    answers = views.partitions(name)
    return bool(answers) and all(known == partitions for known in answers)


def _lacking(layout: Any) -> int:
    """How many partitions have no leader, or replicas that are not in sync."""
    return sum(not info.leader or len(info.isr) < len(info.replicas) for info in layout.partitions)


def _summary(layout: Any) -> TopicSummary:
    return TopicSummary(
        topic=layout.name,
        topic_id=_kafka_id(layout.topic_id),
        internal=layout.is_internal,
        partitions=len(layout.partitions),
        replication_factor=max(len(info.replicas) for info in layout.partitions),
        under_replicated=_lacking(layout),
    )
