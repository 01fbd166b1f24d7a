"""What the ledger's spans say: whether they follow each other, and whether rows that are missing ever landed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fencepost.audit.engines.engine import BUCKET_BITS
from fencepost.audit.findings import Finding
from fencepost.audit.sums import Bucket
from fencepost.guarantee import Anomaly
from fencepost.model import Span, TopicPartition


@dataclass(frozen=True)
class LandedSpan:
    """What a commit says that it covered and wrote."""

    partition: TopicPartition
    span: Span
    rows: int | None  # None where the position moved before the rows were written

    def buckets(self) -> Iterator[Bucket]:
        if self.span.end > self.span.start:
            for number in range(self.span.start >> BUCKET_BITS, ((self.span.end - 1) >> BUCKET_BITS) + 1):
                yield Bucket(*self.partition, number)


@dataclass(frozen=True)
class SpanCount:
    """How many rows are there of one span, each counted once."""

    landed: LandedSpan
    rows: int
    whole: bool = True  # is all of it compared, or only a part?

    def lost(self, missing: int) -> int:
        """How many rows are lost, where so many records have none. Without a count all of these are."""
        if self.landed.rows is None:
            return missing
        fewer = max(self.landed.rows - self.rows, 0)
        return fewer if self.whole else min(fewer, missing)

    @property
    def surplus(self) -> int:
        """How many rows are more than the commit wrote."""
        return max(self.rows - self.landed.rows, 0) if self.landed.rows is not None else 0


def earlier_topics(spans: Sequence[LandedSpan]) -> list[tuple[TopicPartition, Span]]:
    """Where topics of the same names that were deleted left rows: their spans are kept as `topic@id`.

    Spans of one topic that follow each other come together. So an offset has as many rows of earlier topics, at most,
    as there are spans here that hold it.
    """
    found: dict[TopicPartition, list[Span]] = {}
    for landed in spans:
        if "@" not in landed.partition.topic or landed.rows == 0:
            continue
        runs = found.setdefault(landed.partition, [])
        if runs and runs[-1].end == landed.span.start:
            runs[-1] = Span(runs[-1].start, landed.span.end)
        else:
            runs.append(landed.span)
    return [
        (TopicPartition(at.topic.partition("@")[0], at.partition), run)
        for at, runs in sorted(found.items())
        for run in runs
    ]


def breaks(spans: Sequence[LandedSpan], positions: Mapping[TopicPartition, int]) -> Iterator[Finding]:
    """Where a partition's spans do not follow each other in the order of their commits, or end beside its position."""
    reached: dict[TopicPartition, int] = {}
    for landed in spans:
        if "@" in landed.partition.topic:
            continue  # of a topic that was deleted since
        before = reached.get(landed.partition, landed.span.start)
        if landed.span.start != before:
            yield _break(landed.partition, before, landed.span.start, "the next span begins")
        reached[landed.partition] = landed.span.end
    for partition, end in sorted(reached.items()):
        position = positions.get(partition)
        if position is not None and position != end:
            yield _break(partition, end, position, "the stored position is")


def _break(partition: TopicPartition, end: int, other: int, what: str) -> Finding:
    code = Anomaly.SPAN_GAP if other > end else Anomaly.SPAN_OVERLAP
    note = f"a span ends at {end}, and {what} {'at ' if 'span' in what else ''}{other}"
    return Finding(code, None, *partition, offset=min(end, other), times=abs(other - end), expected=0, note=note)


def starts(spans: Iterable[LandedSpan]) -> dict[TopicPartition, int]:
    """Where each partition began to be carried."""
    first: dict[TopicPartition, int] = {}
    for landed in spans:
        first[landed.partition] = min(landed.span.start, first.get(landed.partition, landed.span.start))
    return first
