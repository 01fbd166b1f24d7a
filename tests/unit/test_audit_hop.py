"""Sums per bucket, then row by row: the audit of one hop agrees with a naive oracle, whatever the history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.audit.compare import Verdict, compare_sink
from fencepost.audit.engines.duckdb import DuckEngine, open_duck
from fencepost.audit.engines.engine import table
from fencepost.audit.engines.relations import LOG, origins, put_nothing_dead, put_ranges, says_where, zoned
from fencepost.audit.findings import Finding, Hop
from fencepost.audit.log_to_sink import compare_sides
from fencepost.audit.question import PLACES, Question, Ranges, by_id
from fencepost.audit.spans import LandedSpan
from fencepost.guarantee import Anomaly, Guarantee
from fencepost.model import Span, TopicPartition
from support.drawn import examples
from unit.ranges import each

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
FAR = 1 << 17  # another bucket
Place = tuple[TopicPartition, int]
Output = tuple[TopicPartition, int, int]
SINK = {
    "topic": pa.string(),
    "part": pa.int32(),
    "pos": pa.int64(),
    "id": pa.string(),
    "n": pa.int32(),
    "payload": pa.string(),
}


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckEngine]:
    with open_duck() as duck:
        yield duck


def log_rows(records: Sequence[Place], payloads: dict[Place, str]) -> pa.Table:
    rows = [
        (*at, pos, f"p:{at.partition}{pos}", None, None, payloads.get((at, pos), "same"), False) for at, pos in records
    ]
    return table({field.name: field.type for field in LOG}, rows)


def sink_rows(rows: Sequence[Output], payloads: dict[Place, str]) -> pa.Table:
    return table(
        SINK, [(*at, pos, f"p:{at.partition}{pos}", n, payloads.get((at, pos), "same")) for at, pos, n in rows]
    )


class Side:
    """A log, a sink, and the audit of one against the other."""

    def __init__(self, engine: DuckEngine) -> None:
        self.engine = engine
        self.aborted: list[Place] = []
        self.dead: list[Place] = []
        self.payloads: dict[Place, str] = {}
        self.placed = True  # do the rows know where they came from?
        self.question = Question(PLACES, self._raw)

    def compare(self, log: Sequence[Place], sink: Sequence[Output], until: int = 1 << 40) -> Hop:
        self.engine.put("log", log_rows(log, {}))
        self.engine.put("rows", sink_rows(sink, self.payloads))
        nowhere = "NULL::VARCHAR AS topic, NULL::INTEGER AS part, NULL::BIGINT AS pos"
        self.engine.view("landed", f"SELECT {'topic, part, pos' if self.placed else nowhere}, id, n, payload FROM rows")
        put_ranges(self.engine, {A: Span(0, until), B: Span(0, until)})
        put_nothing_dead(self.engine)
        if self.dead:
            self.engine.put("dead", log_rows(self.dead, {}))
        self._log = log
        self.engine.view("expected", "SELECT * FROM log")
        by_id_ = "SELECT *, CASE WHEN id IS NULL THEN 'nameless' ELSE 'in' END AS zone FROM landed"
        self.engine.view("sink", zoned("landed") if self.placed else by_id_)
        return compare_sides(self.engine, self.question)

    def _raw(self, _ranges: Ranges | None) -> None:
        self.engine.put("raw", log_rows([*self._log, *self.aborted], {}))


@pytest.fixture
def side(engine: DuckEngine) -> Side:
    return Side(engine)


def places(*offsets: int, at: TopicPartition = A) -> list[Place]:
    return [(at, offset) for offset in offsets]


def once(records: Sequence[Place]) -> list[Output]:
    return [(at, offset, 0) for at, offset in records]


def named(findings: Sequence[Finding]) -> list[tuple[str, int | None]]:
    return [(finding.code.value, finding.offset) for finding in each(findings)]


def test_everything_once_finds_nothing(side: Side) -> None:
    log = [*places(0, 1, 2, 4, FAR), *places(7, at=B)]
    hop = side.compare(log, once(log))
    assert (hop.expected, hop.landed, hop.findings) == (6, 6, [])
    assert hop.facts["read"] == 6


def test_a_hole_a_copy_and_a_stranger_are_named_though_the_counts_agree(side: Side) -> None:
    hop = side.compare(places(0, 1, 2), once(places(0, 0, 9)))
    assert sorted(named(hop.findings)) == [("D2", 0), ("L2", 1), ("L2", 2), ("P", 9)]
    assert (hop.expected, hop.landed) == (3, 3)


def test_two_extra_copies_do_not_cancel_each_other(side: Side) -> None:
    hop = side.compare(places(0, 1), once(places(0, 0, 0, 1)))
    assert named(hop.findings) == [("D2", 0)]
    assert hop.totals[Anomaly.DOUBLED_IN_SINK] == 2


def test_several_outputs_of_one_event_are_no_copies_and_a_repeated_output_is_one(side: Side) -> None:
    assert side.compare(places(0), [(A, 0, 0), (A, 0, 1)]).findings == []
    (found,) = side.compare(places(0), [(A, 0, 0), (A, 0, 1), (A, 0, 1)]).findings
    assert (found.code, found.offset, found.times, found.note) == (
        Anomaly.DOUBLED_IN_SINK,
        0,
        2,
        "output 1 of the event",
    )


def test_a_row_of_an_aborted_record_is_told_from_a_stranger(side: Side) -> None:
    side.aborted = places(5)
    hop = side.compare(places(0, 1), once(places(0, 1, 5, 6)))
    assert sorted(named(hop.findings)) == [("G1a", 5), ("P", 6)]


def test_a_row_of_a_partition_that_the_topic_does_not_have_is_a_stranger(side: Side) -> None:
    hop = side.compare(places(0), [(A, 0, 0), (TopicPartition("orders", 3), 0, 0)])
    assert [(one.code.value, one.partition) for one in hop.findings] == [("P", 3)]


def test_rows_of_other_topics_are_somebody_elses_and_rows_of_nowhere_are_told(side: Side) -> None:
    nowhere: Any = (TopicPartition(None, None), None, None)  # type: ignore[arg-type]
    hop = side.compare(places(0), [(A, 0, 0), (TopicPartition("other", 0), 0, 0), nowhere])
    assert (hop.findings, hop.landed, hop.facts["others"], hop.facts["unplaced"]) == ([], 1, 1, 1)
    assert hop.not_checked == ["1 row of which nothing says where it came from"]
    assert hop.verdict(Guarantee.EXACTLY_ONCE) is Verdict.PARTLY


def test_records_are_rows_of_the_places_that_their_headers_name(engine: DuckEngine) -> None:
    said = ["orders/0/7/1", "orders/x/7/1", "junk", "", None]
    engine.put("landed", pa.table({"origin": said, "id": ["a"] * 5, "payload": ["p"] * 5}))
    assert says_where(engine, "landed")
    rows = [tuple(row.values()) for row in engine.rows(origins("landed"))]
    assert rows[0] == ("orders", 0, 7, "a", 1, "p")
    assert all(None in row for row in rows[1:])
    engine.put("landed", pa.table({"origin": pa.array([None], pa.string())}))
    assert not says_where(engine, "landed")


def test_rows_beyond_the_position_are_left_aside(side: Side) -> None:
    hop = side.compare(places(0, 1), once(places(0, 1, 2, 3)), until=2)
    assert hop.findings == []
    assert (hop.facts["ahead"], hop.landed) == (2, 2)


def test_by_id_a_row_of_an_event_beyond_the_position_is_left_aside(side: Side) -> None:
    side.question = replace(side.question, keying=by_id(side.engine))
    side.aborted = places(3)  # committed or not, it is in the log beyond the position
    side.placed = False
    hop = side.compare(places(0, 1), once(places(0, 1, 3)), until=2)
    assert hop.findings == []
    assert (hop.facts["ahead"], hop.landed, hop.expected) == (1, 2, 2)


def test_a_span_that_is_compared_in_part_only_answers_for_that_part(side: Side) -> None:
    side.question = replace(side.question, spans=[LandedSpan(A, Span(0, 4), 4)], ranges={A: Span(2, 4)})
    hop = side.compare(places(2, 3), once(places(2)))
    assert named(hop.findings) == [("L2", 3)]
    assert hop.totals[Anomaly.LOST_BEFORE_SINK] == 1


def test_a_record_that_was_put_aside_is_dead_and_not_lost(side: Side) -> None:
    side.dead = places(1)
    hop = side.compare(places(0, 1), once(places(0)))
    assert hop.findings == []
    assert (hop.facts["dead"], hop.facts["filtered"]) == (1, 0)


def test_a_changed_payload_is_named(side: Side) -> None:
    side.question = replace(side.question, payload=True)
    side.payloads = {(A, 1): "other"}
    hop = side.compare(places(0, 1), once(places(0, 1)))
    assert named(hop.findings) == [("X", 1)]


def test_spans_tell_filtered_records_from_lost_ones(side: Side) -> None:
    log = places(0, 1, 2, 3)
    side.question = replace(side.question, spans=[LandedSpan(A, Span(0, 4), 2)], ranges={A: Span(0, 4)})
    hop = side.compare(log, once(places(0, 2)))
    assert hop.findings == []
    assert hop.facts["filtered"] == 2

    (found,) = (hop := side.compare(log, once(places(0)))).findings
    assert (found.code, found.times, found.expected) == (Anomaly.LOST_BEFORE_SINK, 1, 2)
    assert hop.totals[Anomaly.LOST_BEFORE_SINK] == 1


def test_where_nothing_was_filtered_each_lost_record_is_named(side: Side) -> None:
    side.question = replace(
        side.question, spans=[LandedSpan(A, Span(0, 2), 2), LandedSpan(A, Span(2, 4), 2)], ranges={A: Span(0, 4)}
    )
    hop = side.compare(places(0, 1, 2, 3), once(places(0, 3)))
    assert named(hop.findings) == [("L2", 1), ("L2", 2)]


def test_a_row_whose_record_was_compacted_away_is_no_stranger_unless_there_are_more_than_its_commit_wrote(
    side: Side,
) -> None:
    spans = [LandedSpan(A, Span(0, 3), 3), LandedSpan(A, Span(3, 6), 2)]
    side.question = replace(side.question, spans=spans, ranges={A: Span(0, 6)}, compacted=True)
    hop = side.compare(places(2, 3), once(places(0, 1, 2, 3, 4, 5)))
    assert (hop.totals[Anomaly.PHANTOM], hop.facts["compacted"]) == (1, 3)
    assert [(one.code.value, one.times, one.expected) for one in hop.findings] == [("P", 3, 2)]


def test_an_output_more_than_the_commit_wrote_is_a_stranger(side: Side) -> None:
    spans = [LandedSpan(A, Span(0, 2), 3)]
    side.question = replace(side.question, spans=spans, ranges={A: Span(0, 2)})
    assert side.compare(places(0, 1), [(A, 0, 0), (A, 0, 1), (A, 1, 0)]).findings == []
    hop = side.compare(places(0, 1), [(A, 0, 0), (A, 0, 1), (A, 1, 0), (A, 1, 1)])
    assert [(one.code.value, one.times, one.expected) for one in hop.findings] == [("P", 4, 3)]
    assert hop.totals[Anomaly.PHANTOM] == 1


def test_findings_are_cut_and_totals_are_not(side: Side) -> None:
    side.question = replace(side.question, most=3)
    hop = side.compare(places(*range(0, 20, 2)), [])
    assert len(hop.findings) == 3
    assert hop.totals[Anomaly.LOST_BEFORE_SINK] == 10


def test_events_that_follow_each_other_and_are_alike_are_one_finding(side: Side) -> None:
    log = [*places(*range(10)), *places(0, 1, at=B)]
    hop = side.compare(log, once([*places(3, 5, 5, 6, 6)]))
    assert [(one.code.value, one.partition, one.offset, one.last_offset, one.events) for one in hop.findings] == [
        ("D2", 0, 5, 6, 2),
        ("L2", 0, 0, 2, 3),
        ("L2", 0, 4, None, 1),
        ("L2", 0, 7, 9, 3),
        ("L2", 1, 0, 1, 2),
    ]
    assert sum(one.weight for one in hop.findings) == hop.totals.total() == 11


OFFSETS = st.integers(0, 3) | st.integers(FAR, FAR + 2)
RECORDS = st.lists(st.tuples(st.sampled_from([A, B]), OFFSETS), max_size=12, unique=True)
OUTPUTS = st.lists(st.tuples(st.sampled_from([A, B]), OFFSETS, st.just(0)), max_size=16)


@settings(max_examples=examples(40, 150), deadline=None)
@given(RECORDS, OUTPUTS)
def test_by_place_it_agrees_with_the_oracle(engine: DuckEngine, log: list[Place], sink: list[Output]) -> None:
    hop = Side(engine).compare(log, sink)
    oracle = compare_sink(log, [(at, pos) for at, pos, _ in sink])
    expected = Counter({(one.code, one.id): one.times for one in oracle.findings})
    assert Counter({(one.code, _place(one)): one.times for one in each(hop.findings)}) == expected
    assert sum(one.weight for one in hop.findings) == hop.totals.total()
    assert (hop.expected, hop.landed) == (oracle.expected, oracle.landed)


@settings(max_examples=examples(30, 100), deadline=None)
@given(RECORDS, OUTPUTS)
def test_by_id_it_agrees_with_the_oracle(engine: DuckEngine, log: list[Place], sink: list[Output]) -> None:
    side = Side(engine)
    side.question = replace(side.question, keying=by_id(engine))
    hop = side.compare(log, sink)
    oracle = compare_sink(
        [f"p:{at.partition}{pos}" for at, pos in log], [f"p:{at.partition}{pos}" for at, pos, _ in sink]
    )
    assert {(one.code, f"p:{one.partition}{one.offset}", one.times) for one in each(hop.findings)} == {
        (one.code, one.id, one.times) for one in oracle.findings
    }


def _place(finding: Finding) -> object:
    return (TopicPartition(finding.topic or "", finding.partition or 0), finding.offset)
