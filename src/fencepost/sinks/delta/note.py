"""What a commit of ours says in its `userMetadata`: whose it is, what it moved, and every position after it.

Each note is whole: the newest one of a pipeline is all that its next run needs to read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from fencepost.fence import Stored, StoredPosition, newest_epoch
from fencepost.model import Span, StreamBatch, TopicPartition
from fencepost.sinks.lake import streams
from fencepost.sinks.lake.commits import NOTHING, Count

MARK = "fencepost"  # the key under which a note is found
NUMBERS = 40  # bits of a transaction's version that count the commits of one epoch


@dataclass(frozen=True)
class Note:
    """One commit of a pipeline."""

    pipeline: str
    stored: Stored  # all of the pipeline's positions after this commit
    number: int  # of the commit, in its epoch
    token: UUID | None = None  # whose commit it is; None: of nobody's run
    guarantee: str | None = None
    spans: Mapping[TopicPartition, Span] = field(default_factory=dict)  # that this commit moved
    rows: bool = False  # are their rows in this very commit?
    data: int | None = None  # the version of the commit that holds their rows, where it is another one
    wrote: int = 0  # how many rows that one has
    total: Count = NOTHING  # what all commits before this one wrote
    begun: Count = NOTHING  # the same when the newest owner began
    dead: Mapping[TopicPartition, int] = field(default_factory=dict)  # dead letters of these spans
    on: int | None = None  # the version of the table on which this was decided; rows land on a later one, it may be
    stream: StreamBatch | None = None  # of a stream that keeps state: the last of its batches that landed
    attempt: str = field(default_factory=lambda: uuid4().hex)  # by this name an attempt finds its own commit

    @property
    def app_id(self) -> str:
        return app_id(self.pipeline)

    @property
    def version(self) -> int:
        """Of the transaction identifier: Delta takes each one once, and none that is lower."""
        return (newest_epoch(self.stored) << NUMBERS) + self.number


def app_id(pipeline: str) -> str:
    """Of Delta's transaction identifier."""
    return f"fencepost.{pipeline}"


def following(held: Note | None, stored: Stored) -> int:
    """The number of the commit that leaves this behind, after what is held: so that versions always grow."""
    if held is None or newest_epoch(stored) > newest_epoch(held.stored):
        return 0
    return held.number + 1


def to_json(note: Note) -> str:
    """Owners once each, and positions by topic: a note is in every commit."""
    owners = list(dict.fromkeys((held.owner, held.epoch) for held in note.stored.values()))
    topics: dict[str, dict[str, Any]] = {}
    for at, held in sorted(note.stored.items()):
        topic = topics.setdefault(at.topic, {"id": held.topic_id, "at": {}})
        moved = None if held.moved_at is None else round(held.moved_at.timestamp() * 1000)
        topic["at"][str(at.partition)] = [held.position, owners.index((held.owner, held.epoch)), moved]
    told = {
        "pipeline": note.pipeline,
        "run": str(note.token) if note.token else None,
        "number": note.number,
        "guarantee": note.guarantee,
        "attempt": note.attempt,
        "owners": [[str(owner) if owner else None, epoch] for owner, epoch in owners],
        "topics": topics,
        "spans": [[*at, span.start, span.end, note.dead.get(at, 0)] for at, span in sorted(note.spans.items())],
        "rows": note.rows,
        "data": note.data,
        "wrote": note.wrote,
        "total": note.total,
        "begun": note.begun,
        "on": note.on,
        **streams.told(note.stream),
    }
    return json.dumps({MARK: told}, separators=(",", ":"))


def from_json(text: object) -> Note | None:
    """None for what somebody else wrote there. Raises nothing: it may be anything."""
    try:
        return _from(json.loads(text)[MARK]) if isinstance(text, str) and f'"{MARK}"' in text else None
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, OSError, RecursionError):
        return None


def _from(told: Mapping[str, Any]) -> Note:
    owners = [(UUID(owner) if owner else None, int(epoch)) for owner, epoch in told["owners"]]
    stored = {}
    for topic, held in told["topics"].items():
        for partition, (position, owner, moved) in held["at"].items():
            moved_at = None if moved is None else datetime.fromtimestamp(moved / 1000, UTC)
            token, epoch = owners[owner]
            stored[TopicPartition(topic, int(partition))] = StoredPosition(
                int(position), token, epoch, held["id"], moved_at
            )
    spans, dead = {}, {}
    for topic, partition, start, end, letters in told["spans"]:
        spans[TopicPartition(topic, partition)] = Span(start, end)
        dead[TopicPartition(topic, partition)] = letters
    return Note(
        str(told["pipeline"]),
        stored,
        int(told["number"]),
        UUID(told["run"]) if told["run"] else None,
        told["guarantee"],
        spans,
        bool(told["rows"]),
        None if told["data"] is None else int(told["data"]),
        int(told["wrote"]),
        Count(*map(int, told["total"])),
        Count(*map(int, told["begun"])),
        dead,
        told.get("on"),
        streams.read(told),
        str(told["attempt"]),
    )
