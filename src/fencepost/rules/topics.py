"""What limits a topic, and a pipeline that reads what it writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from fencepost.rules.findings import MAY_LOSE, Finding, Hop


@dataclass(frozen=True)
class TopicFacts:
    """How a topic is kept, as its cluster describes it."""

    name: str
    replication_factor: int
    min_insync_replicas: int
    unclean_leader_election: bool = False
    compacted: bool = False


def topic_findings(topic: TopicFacts) -> Iterator[Finding]:
    """What limits a topic: an acknowledged record that one lost broker takes along was never safe."""
    if topic.replication_factor < 2 or topic.min_insync_replicas < 2:
        yield Finding(
            Hop.TOPIC,
            f"topic {topic.name!r} acknowledges a record that a single broker holds "
            f"(replication factor {topic.replication_factor}, "
            f"min.insync.replicas {topic.min_insync_replicas})",
            "give it replication factor 3 and min.insync.replicas 2",
            MAY_LOSE,
        )
    if topic.min_insync_replicas > topic.replication_factor:
        yield Finding(
            Hop.TOPIC,
            f"topic {topic.name!r} needs {topic.min_insync_replicas} in-sync replicas and has "
            f"{topic.replication_factor}: nothing can be written to it",
            "lower min.insync.replicas or raise the replication factor",
            frozenset(),
        )
    if topic.unclean_leader_election:
        yield Finding(
            Hop.TOPIC,
            f"topic {topic.name!r} may elect a leader that lacks acknowledged records",
            "set unclean.leader.election.enable=false",
            MAY_LOSE,
        )


def loop_findings(sources: Iterable[str], targets: Collection[str]) -> Iterator[Finding]:
    """A pipeline that reads what it writes never ends."""
    for source in (source for source in sources if source in targets):
        yield Finding(
            Hop.SINK,
            f"topic {source!r} is read and written by the same pipeline",
            "write to another topic",
            frozenset(),
        )
