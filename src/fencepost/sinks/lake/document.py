"""What a pipeline's last commit to a table says of the pipeline: one document, in the commit itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from fencepost.errors import Refused
from fencepost.fence import Stored, StoredPosition, newest_epoch
from fencepost.model import StreamBatch, TopicPartition
from fencepost.sinks.changes import Kept
from fencepost.sinks.lake import streams
from fencepost.sinks.lake.commits import NOTHING, Carried, Count

FORMAT = 1


@dataclass(frozen=True)
class Document:
    """The ledger of one pipeline, as one of its commits left it."""

    number: int  # of the pipeline's commits: each one is one more than the last
    stored: Stored
    guarantee: str | None = None  # of the run that made the commit
    commit: UUID = field(default_factory=uuid4)  # known to nobody else: tells our own commit when no answer came
    total: Count = NOTHING  # what the pipeline wrote, as far as it was counted
    begun: Count = NOTHING  # the same when the newest owner began
    stream: StreamBatch | None = None  # of a stream that keeps state: the last of its batches that landed
    carried: Carried | None = field(default=None, compare=False)  # of this commit's batch; kept beside the document
    stale: str = field(default="", compare=False)  # why it says nothing of the rows that are there now; not stored

    @property
    def kept(self) -> Kept:
        return Kept(self.stored, self.stream)

    def to_json(self) -> str:
        """In the order of its fields, without blanks: it is stored with every commit."""
        owners = sorted({str(held.owner) for held in self.stored.values()})
        topics = sorted({at.topic for at in self.stored})
        told = {
            "fencepost": FORMAT,
            "number": self.number,
            "commit": str(self.commit),
            "guarantee": self.guarantee,
            "owners": owners,
            "positions": {
                topic: {
                    str(at.partition): _held(held, owners)
                    for at, held in sorted(self.stored.items())
                    if at.topic == topic
                }
                for topic in topics
            },
            "total": self.total,
            "begun": self.begun,
            **streams.told(self.stream),
        }
        return json.dumps(told, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Document:
        """Raises Refused for a document of a format that this version does not know, and for what is none."""
        try:
            told = json.loads(text)
            if told["fencepost"] == FORMAT:
                return cls._told(told)
            why = f"its format is {told['fencepost']!r}, not {FORMAT}"
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            why = f"{type(error).__name__}: {error}"
        raise Refused(
            f"the table's last commit of this pipeline cannot be read: {why}",
            "was it written by a newer version of Fencepost? Use that one",
        )

    @classmethod
    def _told(cls, told: Mapping[str, Any]) -> Document:
        owners = [UUID(owner) for owner in told["owners"]]
        stored = {
            TopicPartition(topic, int(partition)): _stored(held, owners)
            for topic, partitions in told["positions"].items()
            for partition, held in partitions.items()
        }
        total, begun = (Count(*map(int, told.get(name, ()))) for name in ("total", "begun"))
        stream = streams.read(told)
        return cls(told["number"], stored, told["guarantee"], UUID(told["commit"]), total, begun, stream)

    def following(self, kept: Kept, guarantee: str | None, carried: Carried | None) -> Document:
        """The next one: totals go on, and begin anew with an owner."""
        new = newest_epoch(kept.stored) > newest_epoch(self.stored)
        wrote = carried.count if carried else NOTHING
        total = Count(self.total.rows + wrote.rows, self.total.dead + wrote.dead)
        begun = self.total if new else self.begun
        return Document(
            self.number + 1, kept.stored, guarantee, total=total, begun=begun, stream=kept.stream, carried=carried
        )


def _held(held: StoredPosition, owners: list[str]) -> list[Any]:
    moved = held.moved_at.isoformat() if held.moved_at else None
    return [held.position, owners.index(str(held.owner)), held.epoch, held.topic_id, moved]


def _stored(held: list[Any], owners: list[UUID]) -> StoredPosition:
    position, owner, epoch, topic_id, moved = held
    return StoredPosition(position, owners[owner], epoch, topic_id, datetime.fromisoformat(moved) if moved else None)
