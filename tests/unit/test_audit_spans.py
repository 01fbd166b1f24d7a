"""Spans that do not follow each other, positions beside them, and the page that shows it all."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from fencepost.audit.compare import Verdict
from fencepost.audit.findings import Audit, Finding, Hop
from fencepost.audit.page import render, write_page
from fencepost.audit.spans import LandedSpan, breaks, earlier_topics
from fencepost.audit.sums import Bucket, Sums, suspects
from fencepost.errors import Usage
from fencepost.guarantee import Anomaly, Guarantee
from fencepost.model import Span, TopicPartition

AT = TopicPartition("orders", 0)


def landed(*spans: tuple[int, int]) -> list[LandedSpan]:
    return [LandedSpan(AT, Span(*span), span[1] - span[0]) for span in spans]


def codes(spans: list[LandedSpan], position: int) -> list[tuple[str, int | None, int]]:
    return [(one.code.value, one.offset, one.times) for one in breaks(spans, {AT: position})]


def test_spans_that_follow_each_other_up_to_the_position_are_whole() -> None:
    assert codes(landed((0, 3), (3, 6)), 6) == []


def test_a_gap_an_overlap_and_a_position_beside_the_last_span_are_named() -> None:
    assert codes(landed((0, 2), (4, 6)), 6) == [("K-gap", 2, 2)]
    assert codes(landed((0, 3), (2, 6)), 6) == [("K-overlap", 2, 1)]
    assert codes(landed((0, 6)), 9) == [("K-gap", 6, 3)]
    assert codes(landed((0, 6)), 4) == [("K-overlap", 4, 2)]


def test_where_a_deleted_topic_of_the_same_name_left_rows() -> None:
    """Spans that follow each other together, those without rows left out, those that were carried twice counted so."""
    old, new = TopicPartition("orders@x", 0), TopicPartition("orders", 0)
    spans = [(old, 0, 3, 3), (old, 3, 6, None), (old, 6, 9, 0), (old, 9, 12, 1), (new, 0, 20, 20), (old, 0, 3, 3)]
    found = earlier_topics([LandedSpan(at, Span(start, end), rows) for at, start, end, rows in spans])
    assert found == [(AT, Span(0, 6)), (AT, Span(9, 12)), (AT, Span(0, 3))]


def test_sums_that_differ_in_anything_are_suspect() -> None:
    here, there = Bucket("orders", 0, 0), Bucket("orders", 0, 1)
    whole = Sums(2, 5, 11, 13)
    assert suspects({here: whole}, {here: whole}) == []
    for other in (whole._replace(rows=3), whole._replace(total=6), whole._replace(first_hash=1)):
        assert suspects({here: whole}, {here: other}) == [here]
    assert suspects({here: whole._replace(second_hash=0)}, {here: whole}) == [here]
    assert suspects({here: whole}, {here: whole, there: whole}) == [there]
    assert suspects({here: whole}, {here: whole._replace(more=1)}) == [here]


def audit_of(*findings: Finding, guarantee: Guarantee = Guarantee.EXACTLY_ONCE, undecided: str = "") -> Audit:
    hop = Hop("log to sink", "provenance", 10, 10)
    hop.add(findings)
    part = {"topic": "orders", "partition": 0, "from": 0, "to": 100, "end": 120, "waiting": 20}
    return Audit(guarantee, "python", [hop], [part], undecided)


def test_the_verdict_follows_the_table_and_nothing_passes_without_a_comparison() -> None:
    copy = Finding(Anomaly.DOUBLED_IN_SINK, None, "orders", 0, 5, 2)
    assert audit_of().verdict is Verdict.HOLDS
    assert audit_of(copy).verdict is Verdict.BROKEN
    assert audit_of(copy, guarantee=Guarantee.AT_LEAST_ONCE).verdict is Verdict.HOLDS
    assert audit_of(undecided="Kafka does not answer").verdict is Verdict.INCONCLUSIVE
    assert audit_of(copy, undecided="not drained").verdict is Verdict.BROKEN
    assert Audit(Guarantee.EXACTLY_ONCE, "", []).verdict is Verdict.INCONCLUSIVE


def test_each_hop_has_a_verdict_and_what_no_declaration_covers_is_only_said() -> None:
    sender = Hop("sender to log", "ids", findings=[Finding(Anomaly.DOUBLED_IN_LOG, "p:1", "orders", 0, 1, 2)])
    sender.totals[Anomaly.DOUBLED_IN_LOG] = 1
    found = audit_of()
    found.hops.insert(0, sender)
    assert (sender.verdict(found.guarantee), found.verdict) == (Verdict.BROKEN, Verdict.BROKEN)
    sender.only_say(Anomaly.DOUBLED_IN_LOG, Anomaly.REORDERED_IN_LOG)
    assert (sender.verdict(found.guarantee), found.verdict, found.findings) == (Verdict.UNJUDGED, Verdict.HOLDS, [])
    assert [hop["verdict"] for hop in found.as_json(9)["hops"]] == ["not-judged", "holds"]
    assert "D1 1 (not judged)" in render(found, "orders")
    sender.totals[Anomaly.CORRUPTED] = 1
    assert found.verdict is Verdict.BROKEN
    assert Audit(Guarantee.EXACTLY_ONCE, "", [Hop("sender to log", "", declared=False)]).verdict is Verdict.INCONCLUSIVE


def test_what_was_not_checked_is_in_the_verdict_the_page_and_the_json() -> None:
    found = audit_of()
    found.hops[0].not_checked.append("rows <b>beyond</b> the moon")
    assert found.verdict is Verdict.PARTLY
    assert found.as_json(9)["not_checked"] == ["log to sink: rows <b>beyond</b> the moon"]
    page = render(found, "orders")
    assert "holds-in-part" in page
    assert "Not checked: log to sink: rows &lt;b&gt;beyond" in page
    found.hops[0].undecided = "the key is jsonb"
    assert (found.verdict, "the key is jsonb" in render(found, "orders")) == (Verdict.INCONCLUSIVE, True)


def test_what_breaks_the_guarantee_comes_first_and_the_rest_in_the_order_of_the_log() -> None:
    copy = Finding(Anomaly.DOUBLED_IN_SINK, None, "orders", 0, 1, 2)
    late, hole = (Finding(Anomaly.LOST_BEFORE_SINK, None, "orders", 0, offset) for offset in (9, 5))
    assert audit_of(copy, late, hole, guarantee=Guarantee.AT_LEAST_ONCE).findings == [hole, late, copy]


def test_the_page_needs_nothing_else_and_lets_no_id_in_as_markup(tmp_path: Path) -> None:
    bad = Finding(Anomaly.LOST_BEFORE_SINK, "<script>alert(1)</script>", "orders", 0, 50)
    page = render(audit_of(bad), "orders<b>")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"(src|href)=|https?://|url\(", page)
    assert page.count("<rect") == 3  # what waits, what was compared, and the hole
    assert write_page(audit_of(bad), "orders", tmp_path / "report").read_text() == render(audit_of(bad), "orders")


def test_the_strip_shows_a_hole_at_the_first_offset_and_one_before_it() -> None:
    page = render(audit_of(Finding(Anomaly.LOST_BEFORE_SINK, None, "orders", 0, 0)), "orders")
    assert '<rect x="0" width="1" height="1" fill="#c62828"/>' in page
    part = {"topic": "orders", "partition": 0, "from": 50, "to": 100, "end": 100, "waiting": 0}
    older = Audit(Guarantee.EXACTLY_ONCE, "python", [Hop("log to sink", "provenance")], [part])
    older.hops[0].add([Finding(Anomaly.SPAN_GAP, None, "orders", 0, 10)])
    assert 'x="-' not in render(older, "orders")
    wide = Finding(Anomaly.LOST_BEFORE_SINK, None, "orders", 0, 0, events=12, last_offset=11, weight=12)
    assert render(audit_of(wide), "orders").count('fill="#c62828"') == 19  # twelve of 120 offsets, of 200 cells


def test_a_report_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Usage, match="cannot be written"):
        write_page(audit_of(), "orders", tmp_path / "file")


def test_totals_are_exact_where_findings_are_cut() -> None:
    hop = Hop("log to sink", "provenance")
    hop.add([Finding(Anomaly.LOST_BEFORE_SINK)], total=1_000)
    assert hop.totals == Counter({Anomaly.LOST_BEFORE_SINK: 1_000})
    assert hop.missing == 1_000
