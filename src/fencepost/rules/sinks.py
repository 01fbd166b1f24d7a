"""What limits a sink and a merge, and how a sink takes rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from fencepost.errors import Usage
from fencepost.model import Merge, Mode
from fencepost.rules.findings import IN_ORDER, MAY_LOSE, MAY_REPEAT, Finding, Hop


class WritePath(StrEnum):
    """How a sink takes rows: one Kafka partition at a time inside a task, or a whole table on the driver."""

    DIRECT = "direct"
    STAGED = "staged"
    WHOLE = "whole"  # the batch in one commit of Spark's own writer, whatever its plan


@dataclass(frozen=True)
class Capabilities:
    """What a kind of sink can do."""

    name: str
    paths: frozenset[WritePath]
    atomic: bool  # rows and position become visible in one step
    durable: bool = True  # what was written is still there after a crash
    dead_letters: bool = False  # there is a place beside it for records that are dead-lettered
    letter_topic: bool = False  # that place is a topic, and the pipeline names it
    engines: frozenset[str] = frozenset({"python", "spark"})  # that can write to it
    why_engines: str = ""  # why not another one
    records: bool = False  # takes records with key, value and headers, and nested values; else columns of flat types
    group_ledger: bool = False  # its positions are a consumer group's offsets: there is nothing to mirror
    instead: str = "choose a sink that stores positions"  # of one that is not atomic, where exactly-once is wanted


def sink_findings(sink: Capabilities) -> Iterator[Finding]:
    """What limits a sink, whatever comes before it."""
    if not sink.durable:
        yield Finding(
            Hop.SINK,
            f"sink {sink.name!r} may lose what it has accepted",
            "choose a sink that is durable when a write returns",
            MAY_LOSE,
        )
    elif not sink.atomic:
        yield Finding(
            Hop.SINK,
            f"sink {sink.name!r} cannot store the position together with the rows",
            sink.instead,
            MAY_REPEAT,
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
            "a deleted row leaves nothing to compare a repeated older event with",
            "leave tombstones: keep, and let the transform mark such rows",
            IN_ORDER,
        )
    if not provenance and not merge.order_by:
        yield Finding(
            Hop.SINK,
            "rows without provenance cannot be distinguished from older ones that are repeated",
            "keep the column _from in the transform and leave provenance on, or give order_by",
            IN_ORDER,
        )


def require_key(merge: Merge | None, columns: Collection[str], provenance: bool) -> None:
    """Refuse a merge by columns that the rows do not have."""
    if merge is None:
        return
    for what, name in [*(("key", name) for name in merge.key), ("order_by", merge.order_by)]:
        if name is not None and name not in columns:
            near = get_close_matches(name, columns, n=1)
            meant = f"did you mean {near[0]!r}?" if near else "add it in the transform, or use mode: append"
            raise Usage(f"{what} {name!r} is not a column of the rows ({', '.join(columns)})", meant)
    if merge.deletes and not provenance:
        raise Usage(
            "tombstones: delete needs rows with provenance",
            "keep the column _from in the transform, and leave provenance on",
        )


def require_letters(sink: Capabilities, provenance: bool, topic: str | None = None) -> None:
    """Refuse dead letters where there is no place for them, or nobody could tell which they are."""
    if not sink.dead_letters:
        raise Usage(f"sink {sink.name!r} cannot store dead letters (on_error: dead_letter)", "leave it at stop")
    if sink.letter_topic and topic is None:
        raise Usage(
            f"sink {sink.name!r} stores dead letters in a topic (on_error: dead_letter), and none is named",
            "name one that is there: dead_letters: {topic: NAME}",
        )
    if not provenance:
        raise Usage(
            "on_error: dead_letter needs rows with provenance",
            "keep the column _from in the transform, and leave provenance on",
        )


def require_stateless(operator: str | None) -> None:
    """Refuse a transform that means a whole stream: it is applied to each batch by itself."""
    if operator is not None:
        raise Usage(
            f"the transform keeps state over time ({operator}), but it is applied to each batch alone: it would "
            "silently mean each batch instead of the stream",
            "give a folder for the state (checkpoint: PATH), or group within a batch, or in the database",
        )


def choose_path(sink: Capabilities, wide_node: str | None) -> WritePath:
    """The one path of a sink that takes batches whole; else direct where the plan keeps partitions apart, or staged.

    `wide_node` names the part of the plan that mixes partitions; None when there is no such part.
    """
    if WritePath.WHOLE in sink.paths:
        return WritePath.WHOLE
    if wide_node is None and WritePath.DIRECT in sink.paths:
        return WritePath.DIRECT
    if WritePath.STAGED in sink.paths:
        return WritePath.STAGED
    raise Usage(
        f"the transform mixes Kafka's partitions ({wide_node}), but sink {sink.name!r} takes them one by one",
        "use only projections, filters and row functions, or choose a sink that takes whole tables",
    )
