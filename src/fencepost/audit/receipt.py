"""What became of one event: from the sink's position and the spans beside it, and on request from its row."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.audit.fates import Carried, Fate, Lookup, Record, by_position, by_rows
from fencepost.audit.scope import require_same_topics
from fencepost.errors import Usage
from fencepost.fence import Stored
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import TopicReader
from fencepost.kafka.topic_reader import read_topic
from fencepost.model import EVENT_ID, Mode, Span, TopicPartition
from fencepost.sinks.auditing import AnswersReceipts, Commit
from fencepost.sinks.kind import require_able
from fencepost.spec import Declared, PipelineSpec, spec_of

__all__ = ["Fate", "Receipt", "find_event", "receipt"]
LOOK_EVERY = 0.1  # seconds, while somebody waits for the answer


@dataclass(frozen=True)
class Receipt:
    """The answer for one event."""

    fate: Fate
    partition: TopicPartition
    offset: int
    position: int | None  # None: the pipeline has never been there
    rows: int | None = None  # where they were looked up
    note: str = ""

    @property
    def behind(self) -> int:
        """Offsets that the pipeline has yet to read up to and with this one."""
        return max(self.offset + 1 - (self.position or 0), 0)

    def as_json(self) -> dict[str, Any]:
        return {
            "receipt": self.fate.value,
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "offset": self.offset,
            "position": self.position,
            "behind": self.behind,
            **({} if self.rows is None else {"rows": self.rows}),
            **({"note": self.note} if self.note else {}),
        }


def receipt(
    pipeline: Declared, partition: int, offset: int, topic: str | None = None, *, check: bool = False, wait: float = 0
) -> Receipt:
    """What became of the event at this place; `topic` is needed where the pipeline reads several.

    `check` looks its row up; `wait` is how long to wait for the position. Raises Usage for a place that does not exist,
    TopicRecreated where the topic is another one now.
    """
    spec = spec_of(pipeline)
    at = TopicPartition(spec.source.one(topic), partition)
    with Cluster(spec.kafka) as cluster:
        log = _Log(spec, cluster, at, offset)
        deadline = time.monotonic() + wait
        while by_position(record := log.record())[0] is Fate.WAITING and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)
        lookup = _looked_up(spec, at, record, log) if check else None
    fate, note = by_rows(record, lookup) if lookup else by_position(record)
    return Receipt(fate, at, offset, record.position, lookup.rows if lookup else None, note)


def find_event(spec: PipelineSpec, id_: str, topic: str | None = None) -> tuple[TopicPartition, int]:
    """Where the event with this id is. Reads the topic, or all of them: only the place is found without that.

    An event whose transaction was aborted may have been sent again under its id: the committed one is meant.
    """
    topics = [spec.source.one(topic)] if topic else spec.source.origins
    for committed in (True, False):
        for name in topics:
            for record in read_topic(spec.kafka, name, None, committed=committed):
                if dict(record.headers() or ()).get(EVENT_ID) == id_.encode():
                    return TopicPartition(name, record.partition() or 0), record.offset() or 0
    raise Usage(f"{', '.join(topics)}: no event there has the id {id_}", "was it sent, and is it still in the log?")


class _Log:
    """One place of a topic, and what the ledger holds about it."""

    def __init__(self, spec: PipelineSpec, cluster: Cluster, at: TopicPartition, offset: int) -> None:
        """Raises Usage where there is no such place."""
        self._spec = spec
        self._at = at
        self._offset = offset
        self._topic = TopicReader(cluster, at.topic)
        self._of_these_topics(_answering(spec).positions(spec.job))
        partitions = self._topic.require_same()
        if at not in partitions:
            raise Usage(f"topic {at.topic!r} has no partition {at.partition}", f"it has 0 to {len(partitions) - 1}")
        first, ends = self._topic.bounds([at])
        if not 0 <= offset < ends[at]:
            raise Usage(f"{at} has no offset {offset}", f"it ends at {ends[at]}")
        self.deleted = offset < first[at]

    def record(self) -> Record:
        """As it stands at one moment."""
        found = _answering(self._spec).commits_at(self._spec.job, self._at, self._offset)
        positions = self._of_these_topics(found.stored)
        position = positions.get(self._at)
        begins = True if position is not None else self._begins(positions)
        return Record(self._offset, position, _carried(found.over), begins, _carried(found.earlier), found.forgotten)

    def readable(self) -> tuple[bool, bool]:
        """Is there a committed record, and is it a tombstone?"""
        if self.deleted:
            return False, False
        there = Span(self._offset, self._offset + 1)
        record = next(iter(read_topic(self._spec.kafka, self._at.topic, {self._at: there})), None)
        return record is not None, record is not None and record.value() is None

    def _of_these_topics(self, stored: Stored) -> dict[TopicPartition, int]:
        """The positions. Raises TopicRecreated where the pipeline has read another topic of that name."""
        require_same_topics(stored, self._topic)
        return {at: held.position for at, held in stored.items()}

    def _begins(self, positions: dict[TopicPartition, int]) -> bool | None:
        """Will a first run read it? A partition that is added to a topic begins with its first record."""
        start = self._spec.source.start
        if start == "earliest" or any(at.topic == self._at.topic for at in positions):
            return True
        if start == "latest" or self._at not in (begins := self._topic.positions({}, start)):
            return None
        return True if self._offset >= begins[self._at] else None


def _carried(commits: Sequence[Commit]) -> list[Carried]:
    return [Carried(one.span, one.rows, one.dead) for one in commits]


def _looked_up(spec: PipelineSpec, at: TopicPartition, record: Record, log: _Log) -> Lookup:
    merge = spec.sink.options.merge
    firsts = spec.guarantee is not Guarantee.AT_LEAST_ONCE and bool(record.before)
    span = record.carried[0].span if merge is None and len(record.carried) == 1 else None
    found = _answering(spec).rows_at(spec.job, at, record.offset, firsts, span)
    readable, tombstone = (False, False) if found.rows or found.dead is not None else log.readable()
    mode = merge.mode if merge else Mode.APPEND
    return Lookup(found.rows, found.dead, readable, tombstone, mode, found.in_span, found.firsts)


def _answering(spec: PipelineSpec) -> AnswersReceipts:
    """The pipeline's kind of sink. Raises Usage where it answers no receipts."""
    return require_able(spec.sink.kind, AnswersReceipts, spec.sink.format, "answer receipts")
