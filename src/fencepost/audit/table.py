"""A table against its topic: what was read, what landed, was filtered or put aside, and what does not fit. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fencepost.audit.compare import Comparison, Finding, compare_sink
from fencepost.guarantee import Anomaly
from fencepost.model import Span, TopicPartition

Place = tuple[TopicPartition, int]  # a record: partition and offset
Output = tuple[TopicPartition, int, int]  # a row: the record that it came from, and which of its outputs it is


@dataclass(frozen=True)
class LandedSpan:
    """What a commit says that it wrote."""

    partition: TopicPartition
    span: Span
    rows: int


@dataclass(frozen=True)
class TableAudit:
    """read = landed + filtered + dead, in records; and the rows that are too few or too many."""

    read: int
    landed: int
    filtered: int
    dead: int
    comparison: Comparison


def audit_table(
    log: Iterable[Place], rows: Sequence[Output], dead: Iterable[Place], spans: Sequence[LandedSpan]
) -> TableAudit:
    """Compare a drained part of the log with the rows that came of it.

    A record without a row was filtered or lost: the spans tell. Each says how many rows its commit wrote; fewer than
    that in its range are lost rows.
    """
    places, put_aside = set(log), set(dead)
    with_rows = {(partition, offset) for partition, offset, _ in rows}
    wanted = [row for row in set(rows) if row[:2] in places]
    findings = [*compare_sink(wanted, rows).findings, *_short_spans(set(rows), spans), *_breaks(spans)]
    landed = len(places & with_rows)
    aside = len(places & put_aside - with_rows)
    expected = len(wanted) + sum(finding.expected - finding.times for finding in findings if _is_lost(finding))
    comparison = Comparison(expected, len(rows), findings)
    return TableAudit(len(places), landed, len(places) - landed - aside, aside, comparison)


def _is_lost(finding: Finding) -> bool:
    return finding.code is Anomaly.LOST_BEFORE_SINK


def _short_spans(rows: set[Output], spans: Sequence[LandedSpan]) -> Iterable[Finding]:
    """Spans whose commit wrote more rows than are there."""
    offsets: dict[TopicPartition, list[int]] = defaultdict(list)
    for partition, offset, _ in sorted(rows):
        offsets[partition].append(offset)
    for landed in spans:
        there = offsets[landed.partition]
        count = bisect_left(there, landed.span.end) - bisect_left(there, landed.span.start)
        if count < landed.rows:
            yield Finding(Anomaly.LOST_BEFORE_SINK, f"{landed.partition} {landed.span}", count, landed.rows)


def _breaks(spans: Sequence[LandedSpan]) -> Iterable[Finding]:
    """Where a partition's spans, in the order of their commits, do not follow each other."""
    position: dict[TopicPartition, int] = {}
    for landed in spans:
        before = position.get(landed.partition, landed.span.start)
        if landed.span.start != before:
            code = Anomaly.SPAN_GAP if landed.span.start > before else Anomaly.SPAN_OVERLAP
            yield Finding(code, f"{landed.partition} {before} to {landed.span.start}", 1, 0)
        position[landed.partition] = landed.span.end
