"""What can hold and what cannot: pure functions from settings and facts to findings.

Everything that refuses a combination (the pipeline file, a producer, `plan`, `run`) asks here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from fencepost.errors import UnsupportedGuarantee, Usage
from fencepost.guarantee import Guarantee, nearest
from fencepost.model import Merge, Mode


class Hop(StrEnum):
    """The parts of the way on which a guarantee can break."""

    PRODUCER = "producer"
    TOPIC = "topic"
    READER = "reader"
    SINK = "sink"


class Face(StrEnum):
    """How a sink takes rows: one Kafka partition at a time inside a task, or a whole table on the driver."""

    PARTITION = "partition"
    TABLE = "table"


@dataclass(frozen=True)
class Finding:
    """A promise that a hop cannot keep."""

    hop: Hop
    reason: str
    remedy: str
    possible: frozenset[Guarantee]  # what this hop can still promise


@dataclass(frozen=True)
class SinkTraits:
    """What a kind of sink can do."""

    name: str
    faces: frozenset[Face]
    atomic: bool  # rows and position become visible in one step
    durable: bool = True  # what was written is still there after a crash
    dead_letters: bool = False  # there is a place beside it for records that are put aside


@dataclass(frozen=True)
class TopicFacts:
    """How a topic is kept, as its cluster describes it."""

    name: str
    replication_factor: int
    min_insync_replicas: int
    unclean_leader_election: bool = False
    compacted: bool = False


class Acks(StrEnum):
    """Who must have a record before it counts as written; only at-least-once leaves the choice."""

    NOBODY = "nobody"
    LEADER = "leader"  # the leader alone: lost when it dies before anybody copied it
    QUORUM = "quorum"  # every replica that is in sync, and at least min.insync.replicas of them


@dataclass(frozen=True)
class Footing:
    """A producer's setting on which its guarantee stands."""

    name: str
    allowed: frozenset[str]  # empty: nobody may set it
    value: str  # what it is when nobody sets it; empty: whatever the client has
    reason: str  # what would happen otherwise


ALL = frozenset(Guarantee)
MAY_REPEAT = frozenset({Guarantee.AT_MOST_ONCE, Guarantee.AT_LEAST_ONCE})
MAY_LOSE = frozenset({Guarantee.AT_MOST_ONCE})
IN_ORDER = frozenset({Guarantee.EXACTLY_ONCE})  # nothing comes late or twice


def sink_findings(sink: SinkTraits) -> Iterator[Finding]:
    """What limits a sink, whatever comes before it."""
    if not sink.durable:
        yield Finding(
            Hop.SINK,
            f"sink {sink.name!r} may forget what it was given",
            "choose a sink that is durable when it returns",
            MAY_LOSE,
        )
    elif not sink.atomic:
        yield Finding(
            Hop.SINK,
            f"sink {sink.name!r} cannot store the position together with the rows",
            "choose a sink that keeps positions (postgres)",
            MAY_REPEAT,
        )


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
            f"topic {topic.name!r} wants {topic.min_insync_replicas} in-sync replicas "
            f"and has {topic.replication_factor}: nothing can be written to it",
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


def merge_findings(merge: Merge | None, provenance: bool) -> Iterator[Finding]:
    """What limits upsert: an older event that comes again, or late, must be told from a newer one.

    `provenance`: the rows know where they came from.
    """
    if merge is None or merge.mode is not Mode.UPSERT:
        return
    if merge.deletes:
        yield Finding(
            Hop.SINK,
            "a deleted row leaves nothing to tell an older event by that comes again",
            "leave tombstones: keep, and let the transform mark such rows",
            IN_ORDER,
        )
    if not provenance and not merge.order_by:
        yield Finding(
            Hop.SINK,
            "rows that do not know where they came from cannot be told from older ones that come again",
            "carry the column _from through the transform and leave provenance on, or give order_by",
            IN_ORDER,
        )


def require_key(merge: Merge | None, columns: Collection[str], provenance: bool) -> None:
    """Refuse a merge by columns that the rows do not have."""
    if merge is None:
        return
    for what, name in [*(("key", name) for name in merge.key), ("order_by", merge.order_by)]:
        if name is not None and name not in columns:
            near = get_close_matches(name, columns, n=1)
            meant = f"did you mean {near[0]!r}?" if near else "give it in the transform, or use mode: append"
            raise Usage(f"{what} {name!r} is no column of the rows ({', '.join(columns)})", meant)
    if merge.deletes and not provenance:
        raise Usage(
            "tombstones: delete needs rows that know which event they came from",
            "carry the column _from through the transform, and leave provenance on",
        )


def require_letters(sink: SinkTraits, provenance: bool) -> None:
    """Refuse to put bad records aside where there is no place for them, or nobody could tell which they are."""
    if not sink.dead_letters:
        raise Usage("on_error: dead_letter goes with a PostgreSQL sink for now", "leave it at stop")
    if not provenance:
        raise Usage(
            "on_error: dead_letter needs rows that know where they came from",
            "carry the column _from through the transform, and leave provenance on",
        )


_ACKS = {Acks.NOBODY: "0", Acks.LEADER: "1", Acks.QUORUM: "all"}
_ALIASES = {
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
}
_SAME = {"acks": {"-1": "all"}}
_KEYED = frozenset({"murmur2", "murmur2_random"})


def producer_footing(guarantee: Guarantee, acks: Acks) -> list[Footing]:
    """The settings that the word fixes, each with what would happen otherwise."""
    ours = "Fencepost reads these itself to tell what became of each event"
    footing = [
        _fixed("acks", _ACKS[acks], f"{guarantee} with acks={acks} stands on it"),
        _fixed("delivery.report.only.error", "", ours),
        _fixed("transactional.id", "", "it is the producer's own parameter"),
    ]
    match guarantee:
        case Guarantee.AT_MOST_ONCE:
            footing.append(_fixed("retries", "0", "a retry may write an event twice"))
            footing.append(
                _fixed("enable.idempotence", "false", "it needs acknowledgements, and at-most-once asks none")
            )
        case Guarantee.AT_LEAST_ONCE if acks is Acks.LEADER:
            footing.append(
                _fixed("enable.idempotence", "false", "it needs the acknowledgement of all in-sync replicas")
            )
        case Guarantee.EXACTLY_ONCE:
            footing += [
                _fixed("enable.idempotence", "true", "without it a lost acknowledgement doubles the batch"),
                _fixed("queuing.strategy", "fifo", "another order than that of the sends"),
                _fixed("statistics.interval.ms", "", ours),
                Footing(
                    "max.in.flight.requests.per.connection",
                    frozenset("12345"),
                    "5",
                    "brokers remember the last five batches of a producer, no more",
                ),
                Footing("partitioner", _KEYED, "murmur2_random", "events of one key would not stay in order"),
            ]
        case _:
            pass
    return footing


def _fixed(name: str, value: str, reason: str) -> Footing:
    return Footing(name, frozenset({value}) if value else frozenset(), value, reason)


def require_footing(given: Mapping[str, str], footing: Iterable[Footing]) -> None:
    """Refuse a producer's setting that would break the declaration."""
    said = {_ALIASES.get(name, name): (name, str(value).strip().lower()) for name, value in given.items()}
    for one in footing:
        name, value = said.get(one.name, (one.name, one.value))
        if _SAME.get(one.name, {}).get(value, value) not in one.allowed and one.name in said:
            wanted = f"remove it, or set it to {' or '.join(sorted(one.allowed))}" if one.allowed else "remove it"
            raise Usage(f"{name}={given[name]} would break the guarantee: {one.reason}", wanted)


def require_fixed(given: Mapping[str, str], fixed: Mapping[str, str], where: str) -> None:
    """Refuse a setting on which the guarantee stands and which somebody set otherwise."""
    for name, value in fixed.items():
        if given.get(name, value) != value:
            raise Usage(f"{where}: {name} is {given[name]!r}, and the guarantee stands on {value!r}", "remove it")


def broken(guarantee: Guarantee, findings: Iterable[Finding]) -> list[Finding]:
    """The findings that the guarantee does not survive."""
    return [finding for finding in findings if guarantee not in finding.possible]


def require(guarantee: Guarantee, findings: Iterable[Finding]) -> None:
    """Refuse the combination unless every hop can keep the word; names the worst hop, and what can be had."""
    seen = list(findings)
    against = broken(guarantee, seen)
    if not against:
        return
    worst = min(against, key=lambda finding: len(finding.possible))
    possible = ALL.intersection(*(finding.possible for finding in seen))
    raise UnsupportedGuarantee(guarantee, worst.reason, nearest(guarantee, possible), worst.remedy)


def require_stateless(operator: str | None) -> None:
    """Refuse a transform that means a whole stream: it is applied to each batch by itself."""
    if operator is not None:
        raise Usage(
            f"the transform keeps state over time ({operator}), and it is applied to each batch by itself: "
            "what it says of a stream would silently be said of every batch",
            "leave out watermarks and windows of event time: group within a batch, or let the database do it",
        )


def choose_face(sink: SinkTraits, wide_node: str | None) -> Face:
    """The partition face where the plan keeps Kafka's partitions apart, else the table face.

    `wide_node` names the part of the plan that mixes partitions; None when there is no such part.
    """
    if wide_node is None and Face.PARTITION in sink.faces:
        return Face.PARTITION
    if Face.TABLE in sink.faces:
        return Face.TABLE
    raise Usage(
        f"the transform mixes Kafka's partitions ({wide_node}), and sink {sink.name!r} takes them one by one",
        "keep to projections, filters and functions of one row, or choose a sink that takes whole tables",
    )


# Settings of Kafka's and of Spark's, in whatever block they are written: value, what would happen, what to do
_PITFALLS: Mapping[str, tuple[str | None, str, str, frozenset[Guarantee]]] = {
    "minpartitions": (
        None,
        "several tasks would read parts of one Kafka partition, and none of them could move its position",
        "leave it away: one task reads one partition; add partitions to the topic",
        frozenset(),
    ),
    "maxrecordsperpartition": (
        None,
        "several tasks would read parts of one Kafka partition, and none of them could move its position",
        "leave it away, and set batch.records",
        frozenset(),
    ),
    "asyncprogresstrackingenabled": (
        "true",
        "Spark would store its own progress at other moments than the batches'",
        "leave it away: Spark's checkpoint is not what the position is read from",
        frozenset(),
    ),
    "failondataloss": (
        "false",
        "records that were gone before they were read would be gone over",
        "leave it away; after a loss, say where to go on with `fencepost positions set`",
        MAY_LOSE,
    ),
    "isolation.level": (
        "read_uncommitted",
        "records of transactions that were aborted would reach the sink",
        "leave it away: only committed records are read",
        frozenset(),
    ),
    "spark.speculation": (
        "true",
        "two attempts of one task would stand in each other's way on purpose",
        "leave it away: a task that fails is tried again, and the fence decides what landed",
        frozenset(),
    ),
}


def reader_findings(settings: Mapping[str, str]) -> Iterator[Finding]:
    """What of the settings limits the way from the topic to the reader."""
    for name, value in settings.items():
        plain = name.strip().lower().removeprefix("kafka.")
        bad, reason, remedy, possible = _PITFALLS.get(plain, ("", "", "", ALL))
        if plain in _PITFALLS and (bad is None or str(value).strip().lower() == bad):
            yield Finding(Hop.READER, f"{name}={value}: {reason}", remedy, possible)


def loop_findings(sources: Iterable[str], targets: Collection[str]) -> Iterator[Finding]:
    """A pipeline that reads what it writes never ends."""
    for source in (source for source in sources if source in targets):
        yield Finding(
            Hop.SINK,
            f"topic {source!r} is read and written by the same pipeline",
            "write to another topic",
            frozenset(),
        )
