"""A table against its topic: the balance of records, and rows that are too few or too many."""

from __future__ import annotations

from fencepost.audit.compare import Verdict
from fencepost.audit.table import LandedSpan, Output, Place, TableAudit, audit_table
from fencepost.guarantee import Guarantee
from fencepost.model import Span, TopicPartition

ORDERS = TopicPartition("orders", 0)
LOG: list[Place] = [(ORDERS, offset) for offset in (0, 1, 2, 4, 5)]  # 3 is a marker
SPANS = [LandedSpan(ORDERS, Span(0, 3), 3), LandedSpan(ORDERS, Span(3, 6), 2)]


def rows(*offsets: int) -> list[Output]:
    return [(ORDERS, offset, 0) for offset in offsets]


def codes(audit: TableAudit) -> list[str]:
    return [finding.code.value for finding in audit.comparison.findings]


def test_everything_landed_once() -> None:
    audit = audit_table(LOG, rows(0, 1, 2, 4, 5), [], SPANS)
    assert (audit.read, audit.landed, audit.filtered, audit.dead) == (5, 5, 0, 0)
    assert audit.comparison.verdict(Guarantee.EXACTLY_ONCE) is Verdict.HOLDS


def test_filtered_and_dead_records_are_counted_apart() -> None:
    spans = [LandedSpan(ORDERS, Span(0, 6), 3)]
    audit = audit_table(LOG, rows(0, 1, 2), [(ORDERS, 4)], spans)
    assert (audit.read, audit.landed, audit.filtered, audit.dead) == (5, 3, 1, 1)
    assert audit.comparison.findings == []


def test_rows_that_a_commit_wrote_and_that_are_gone_are_lost() -> None:
    audit = audit_table(LOG, rows(0, 1, 4, 5), [], SPANS)
    assert codes(audit) == ["L2"]
    assert audit.comparison.lost == 1
    assert audit.comparison.verdict(Guarantee.EXACTLY_ONCE) is Verdict.BROKEN


def test_a_copy_is_found_even_when_it_hides_a_hole() -> None:
    audit = audit_table(LOG, rows(0, 0, 1, 4, 5), [], SPANS)
    assert sorted(codes(audit)) == ["D2", "L2"]
    assert (audit.comparison.lost, audit.comparison.duplicated) == (1, 1)


def test_several_outputs_of_one_record_are_no_copies() -> None:
    outputs: list[Output] = [(ORDERS, 0, 0), (ORDERS, 0, 1), (ORDERS, 1, 0)]
    audit = audit_table(LOG[:2], outputs, [], [LandedSpan(ORDERS, Span(0, 2), 3)])
    assert audit.comparison.findings == []


def test_a_row_of_no_record_is_a_phantom() -> None:
    audit = audit_table(LOG, rows(0, 1, 2, 3, 4, 5), [], SPANS)
    assert codes(audit) == ["P"]


def test_spans_that_do_not_follow_each_other_are_named() -> None:
    gap = [LandedSpan(ORDERS, Span(0, 2), 2), LandedSpan(ORDERS, Span(4, 6), 2)]
    assert codes(audit_table(LOG, rows(0, 1, 4, 5), [], gap)) == ["K-gap"]
    overlap = [LandedSpan(ORDERS, Span(0, 3), 3), LandedSpan(ORDERS, Span(2, 6), 3)]
    assert codes(audit_table(LOG, rows(0, 1, 2, 4, 5), [], overlap)) == ["K-overlap"]
