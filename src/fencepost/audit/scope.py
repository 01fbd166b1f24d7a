"""What an audit compares: which offsets of the log, up to which position, and what the ledger says about them."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from fencepost.audit.request import AuditRequest
from fencepost.audit.spans import LandedSpan, starts
from fencepost.errors import TopicRecreated
from fencepost.fence import Stored
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import Start, TopicReader, by_place
from fencepost.kafka.topics import offsets_at, topic_facts
from fencepost.model import Span, TopicPartition
from fencepost.sinks.auditing import ListsCommits
from fencepost.sinks.kind import SinkJob, SinkKind

Doubt = Callable[[TopicPartition, int], bool]  # may the record of this offset not have been processed?

LOOK_EVERY = 0.5  # seconds, while a pipeline drains


@dataclass(frozen=True)
class Scope:
    """The ranges that are compared. Offsets are not events: markers and compaction leave holes in them."""

    ranges: Mapping[TopicPartition, Span]
    ends: Mapping[TopicPartition, int]  # where the committed part of each partition ends now
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)  # the horizon: what lies beyond waits
    spans: list[LandedSpan] = field(default_factory=list)
    compacted: bool = False  # may records be gone from the middle of the log?
    first: Mapping[TopicPartition, int] = field(default_factory=dict)  # where the log begins now
    carried: Mapping[TopicPartition, int] = field(default_factory=dict)  # where a partition began to be carried

    @property
    def offsets(self) -> int:
        return sum(span.end - span.start for span in self.ranges.values())

    def waiting(self, at: TopicPartition) -> int:
        """Offsets that the pipeline has not read yet."""
        if not self.positions:
            return 0
        return max(self.ends.get(at, 0) - self.positions.get(at, self.ranges[at].start), 0)

    @property
    def uncounted(self) -> list[tuple[TopicPartition, Span]]:
        """Where the position moved first, and nobody counted the rows."""
        return sorted(
            ((one.partition, one.span) for one in self.spans if one.rows is None),
            key=lambda one: (one[0], one[1].start),
        )

    def in_doubt(self) -> Doubt:
        """It waits, or its batch may have been lost: the position moved first, and nobody counted the rows."""
        uncounted: dict[TopicPartition, list[Span]] = {}
        for at, span in self.uncounted:
            uncounted.setdefault(at, []).append(span)

        def doubtful(at: TopicPartition, offset: int) -> bool:
            spans = uncounted.get(at, [])
            number = bisect_right(spans, offset, key=lambda span: span.start) - 1
            return offset >= self.positions.get(at, offset) or (number >= 0 and offset < spans[number].end)

        return doubtful

    @property
    def whole(self) -> Mapping[TopicPartition, Span]:
        """All that is committed: what a sender was told does not end at anybody's position."""
        return {at: Span(self.first[at], max(self.first[at], end)) for at, end in self.ends.items()}

    @property
    def forgets(self) -> bool:
        """May records be gone from the log, by retention, deletion or compaction?"""
        return self.compacted or any(self.first.values())

    def partitions(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": at.topic,
                "partition": at.partition,
                "from": span.start,
                "to": span.end,
                "end": self.ends.get(at),
                "waiting": self.waiting(at),
            }
            for at, span in sorted(self.ranges.items())
        ]


def find_scope(request: AuditRequest) -> Scope:
    """Positions are read before anything else, so that what lands meanwhile lies beyond them."""
    with Cluster(request.kafka) as cluster:
        topic = TopicReader(cluster, *request.topics)
        positions, spans, untouched = _stored(request, topic)
        partitions = topic.require_same()
        first, _ = topic.bounds(partitions)
        ends = committed_ends(cluster, partitions)
        begin, until = _limits(topic, request, first, ends)
        facts = [facts for name in request.topics if (facts := topic_facts(cluster, name))]
    carried = {**untouched, **starts(spans)}
    ranges = {}
    for at in partitions:
        start = max(first[at], carried.get(at, first[at]), begin[at])
        end = min(ends[at], until[at], positions.get(at, ends[at] if not request.pipeline else start))
        ranges[at] = Span(start, max(start, end))
    not_read = {at: Span(end, end) for at, end in positions.items() if at.topic not in request.topics}
    return Scope({**ranges, **not_read}, ends, positions, spans, any(each.compacted for each in facts), first, carried)


def committed_ends(cluster: Cluster, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Where a reader of committed records comes to the end."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return offsets_at(cluster, partitions, latest, IsolationLevel.READ_COMMITTED)


def drained(request: AuditRequest, timeout: float) -> bool:
    """Wait until the pipeline has read what the topic holds now; False when it has not within that time."""
    with Cluster(request.kafka) as cluster:
        topic = TopicReader(cluster, *request.topics)
        ends = committed_ends(cluster, topic.require_same())
    deadline = time.monotonic() + timeout
    while not _reached(request, topic, ends):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_EVERY)
    return True


def _reached(request: AuditRequest, topic: TopicReader, ends: Mapping[TopicPartition, int]) -> bool:
    stored: Stored = {}
    if (ledger := _ledger(request)) is not None:
        kind, job = ledger
        stored = kind.positions(job) if isinstance(kind, ListsCommits) else _positions(kind, job)
        require_same_topics(stored, topic)
    return all(end <= 0 or (at in stored and stored[at].position >= end) for at, end in ends.items())


def _stored(
    request: AuditRequest, topic: TopicReader
) -> tuple[dict[TopicPartition, int], list[LandedSpan], dict[TopicPartition, int]]:
    """Every position, the spans, and the positions that no commit has moved: nothing before them was carried."""
    if (ledger := _ledger(request)) is None:
        return {}, [], {}
    kind, job = ledger
    if not isinstance(kind, ListsCommits):
        stored = _positions(kind, job)
        require_same_topics(stored, topic)
        begun = {at: held.begun for at, held in stored.items() if held.begun is not None}
        return {at: held.position for at, held in stored.items()}, [], begun
    stored, commits = kind.commits(job)
    require_same_topics(stored, topic)
    spans = [LandedSpan(one.partition, one.span, one.rows) for one in commits]
    positions = {at: held.position for at, held in stored.items()}
    return positions, spans, {at: held.position for at, held in stored.items() if held.moved_at is None}


def _positions(kind: SinkKind, job: SinkJob) -> Stored:
    with closing(kind.ledger(job)) as ledger:
        return ledger.stored(job.pipeline)


def _ledger(request: AuditRequest) -> tuple[SinkKind, SinkJob] | None:
    """Where the positions of the pipeline are, which is the horizon; None: there is none."""
    if request.pipeline is None or request.sink is None or request.job is None:
        return None
    return request.sink.kind, request.job


def require_same_topics(stored: Stored, topic: TopicReader) -> None:
    """Raises TopicRecreated where the pipeline has read another topic of that name."""
    for at, held in stored.items():
        if held.topic_id and held.topic_id != topic.topic_ids.get(at.topic, held.topic_id):
            raise TopicRecreated(
                f"topic {at.topic!r} is not the topic that the pipeline has read",
                "its rows cannot be compared with it",
            )


def _limits(
    topic: TopicReader, request: AuditRequest, first: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
    def offsets(given: Start | None, otherwise: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if given is None:
            return otherwise
        if isinstance(given, Mapping):  # a partition that is not named keeps its own end
            return {**otherwise, **by_place(given, request.topics)}
        return topic.positions({}, given)

    return offsets(request.since, first), offsets(request.until, ends)
