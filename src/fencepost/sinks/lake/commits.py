"""What a pipeline's commits to a lake's table say that they covered and wrote: for status, receipts and the audit."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from fencepost.fence import Stored
from fencepost.model import Landed, Span, TopicPartition
from fencepost.sinks.auditing import Commit, CommitsAt


class Count(NamedTuple):
    """What was written."""

    rows: int = 0
    dead: int = 0

    def since(self, earlier: Count) -> Landed:
        return Landed(self.rows - earlier.rows, self.dead - earlier.dead)


NOTHING = Count()


def landed(stored: Stored, total: Count, begun: Count, runs: Collection[UUID]) -> Landed:
    """What the newest owner committed; nothing where that is none of these runs."""
    return total.since(begun) if any(one.owner in runs for one in stored.values()) else Landed(0)


@dataclass(frozen=True)
class Carried:
    """What a commit that moves positions says of its batch."""

    spans: Mapping[TopicPartition, Span]
    wrote: int | None = None  # rows in all; None: the position moved before they were written
    rows: Mapping[TopicPartition, int] | None = None  # of each partition; None: nobody can tell them apart
    dead: Mapping[TopicPartition, int] = field(default_factory=dict)  # dead letters of each partition
    topic_ids: Mapping[str, str | None] = field(default_factory=dict)
    back: bool = False  # are the positions put back to where these spans begin?

    @property
    def count(self) -> Count:
        return Count(self.wrote or 0, sum(self.dead.values()))

    def to_json(self) -> str:
        """It is stored with every such commit: a list for each span."""
        told = [
            [*at, span.start, span.end, self.rows and self.rows.get(at, 0), self.dead.get(at, 0)]
            for at, span in sorted(self.spans.items())
        ]
        return json.dumps(
            {"spans": told, "wrote": self.wrote, "ids": self.topic_ids, "back": self.back}, separators=(",", ":")
        )

    @classmethod
    def from_json(cls, text: str) -> Carried | None:
        """None for what this version does not understand: then the commit is not on record."""
        try:
            told = json.loads(text)
            lists = {TopicPartition(str(one[0]), int(one[1])): one[2:] for one in told["spans"]}
            known = all(one[2] is not None for one in lists.values())
            return cls(
                {at: Span(one[0], one[1]) for at, one in lists.items()},
                told["wrote"],
                {at: int(one[2]) for at, one in lists.items()} if known else None,
                {at: int(one[3]) for at, one in lists.items() if one[3]},
                dict(told["ids"]),
                bool(told["back"]),
            )
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            return None


def of_the_first(spans: Collection[TopicPartition], rows: int) -> dict[TopicPartition, int]:
    """Rows that came of many records at once, and of no one of them: the first one's, so that the sum is right."""
    return {**dict.fromkeys(spans, 0), min(spans): rows}


def placed(at: TopicPartition, topic_id: str | None, stored: Stored) -> TopicPartition:
    """As commits are told: of a topic that was deleted since, and has another id now, as `topic@id`."""
    now = next((held.topic_id for other, held in stored.items() if other.topic == at.topic), None)
    other = topic_id is not None and now not in (None, topic_id)
    return TopicPartition(f"{at.topic}@{topic_id}", at.partition) if other else at


def listed(stored: Stored, carried: Iterable[Carried], forgotten: bool) -> list[Commit]:
    """In their order, without those that were put back.

    `forgotten`: older ones are not on record any more. A partition of which none is left begins at its position.
    """
    kept: list[Carried] = []
    for one in carried:
        if not one.back:
            kept.append(one)
        elif (
            undone := next((i for i in range(len(kept) - 1, -1, -1) if kept[i].spans == one.spans), None)
        ) is not None:
            del kept[undone]
    found = [
        Commit(
            placed(at, one.topic_ids.get(at.topic), stored),
            span,
            None if one.rows is None or one.wrote is None else one.rows.get(at, 0),
            one.dead.get(at, 0),
        )
        for one in kept
        for at, span in sorted(one.spans.items())
    ]
    told = {one.partition for one in found}
    if forgotten:
        left = {at: held.position for at, held in stored.items() if held.moved_at is not None and at not in told}
        found += [Commit(at, Span(position, position), 0) for at, position in sorted(left.items())]
    return found


def commits_at(
    stored: Stored, commits: Sequence[Commit], at: TopicPartition, offset: int, forgotten: bool
) -> CommitsAt:
    """Those over one offset, and those around it of earlier topics of the same name."""
    over = [one for one in commits if one.partition == at and one.span.start <= offset < one.span.end]
    around = over[0].span if len(over) == 1 else Span(offset, offset + 1)
    earlier = [
        one
        for one in commits
        if one.partition.topic.startswith(f"{at.topic}@")
        and one.partition.partition == at.partition
        and one.span.start < around.end
        and around.start < one.span.end
    ]
    return CommitsAt(stored, over, earlier, forgotten)
