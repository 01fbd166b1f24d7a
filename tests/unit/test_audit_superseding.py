"""Upsert and dedupe: the row of each key that a naive oracle expects is the one that the audit expects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.audit.engines.duckdb import DuckEngine, open_duck
from fencepost.audit.engines.engine import table
from fencepost.audit.engines.relations import LOG, put_nothing_dead, put_ranges, put_uncounted, zoned
from fencepost.audit.findings import Hop
from fencepost.audit.keyed import make_expected
from fencepost.audit.log_to_sink import compare_sides
from fencepost.audit.question import PLACES, Question
from fencepost.guarantee import Anomaly
from fencepost.model import Merge, Mode, Span, TopicPartition

A, B, C = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("refunds", 0)
UNTIL = 20
UPSERT, DEDUPE = Merge(Mode.UPSERT, ("id",)), Merge(Mode.DEDUPE, ("id",))
ORDERED, DELETING = replace(UPSERT, order_by="v"), replace(UPSERT, deletes=True)
OUTPUTS = {
    "topic": pa.string(),
    "part": pa.int32(),
    "pos": pa.int64(),
    "n": pa.int32(),
    "tombstone": pa.bool_(),
    "k0": pa.string(),
    "ord": pa.float64(),
}
SINK = {"topic": pa.string(), "part": pa.int32(), "pos": pa.int64(), "id": pa.string(), "n": pa.int32()}


class Row(NamedTuple):
    """What the transform made of one event."""

    at: TopicPartition
    pos: int
    n: int
    key: str
    value: float | None = None
    tombstone: bool = False

    @property
    def place(self) -> tuple[str, int, int]:
        return (*self.at, self.pos)


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckEngine]:
    with open_duck() as duck:
        yield duck


def compare(
    engine: DuckEngine,
    merge: Merge,
    made: Sequence[Row],
    sink: Sequence[Row],
    until: int = UNTIL,
    uncounted: Sequence[Span] = (),
) -> Hop:
    records = sorted({row.place for row in made if row.pos < until})
    log = [(*place, None, None, None, None, False) for place in records]
    engine.put("log", table({field.name: field.type for field in LOG}, log))
    engine.put("landed", table(SINK, [(*row.place, None, row.n) for row in sink]))
    engine.put("outputs", table(OUTPUTS, [(*row.place, row.n, row.tombstone, row.key, row.value) for row in made]))
    put_ranges(engine, dict.fromkeys((A, B, C), Span(0, until)))
    put_uncounted(engine, [(A, span) for span in uncounted])
    put_nothing_dead(engine)
    engine.keep("found", f"SELECT topic, part, pos, id, n, NULL AS payload, zone FROM ({zoned('landed')}) AS zoned")
    make_expected(engine, merge)
    raw = log_of(made)
    question = Question(PLACES, lambda _ranges: engine.put("raw", raw), unexpected=Anomaly.DOUBLED_IN_SINK)
    return compare_sides(engine, question)


def log_of(made: Sequence[Row]) -> pa.Table:
    rows = [(*place, None, None, None, None, False) for place in sorted({row.place for row in made})]
    return table({field.name: field.type for field in LOG}, rows)


# -- the oracle: rows arrive partition by partition in some order, as commits do, and are merged one by one


def merged(merge: Merge, arrivals: Sequence[Row]) -> dict[str, Row]:
    """The table after these rows, each merged by itself as the sink's statement says."""
    held: dict[str, Row] = {}
    for row in arrivals:
        there = held.get(row.key)
        if there is None:
            if not (merge.deletes and row.tombstone):
                held[row.key] = row
        elif merge.mode is Mode.UPSERT and not newer(merge, there, row):
            if merge.deletes and row.tombstone:
                del held[row.key]
            else:
                held[row.key] = row
    return held


def newer(merge: Merge, there: Row, row: Row) -> bool:
    if not merge.order_by:
        return there.at == row.at and (there.pos, there.n) > (row.pos, row.n)
    if there.value == row.value:
        return (there.place, there.n) > (row.place, row.n)
    return row.value is None or (there.value is not None and there.value > row.value)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """What came of the log, and the same in an order in which commits may bring it: each partition in its own order."""
    deletes = draw(st.booleans())
    rows = []
    for at in (A, B, C):
        for pos in draw(st.lists(st.integers(0, UNTIL - 1), max_size=6, unique=True)):
            if deletes and draw(st.booleans()):
                rows.append(Row(at, pos, 0, draw(st.sampled_from("xy")), None, True))
                continue
            keys = draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=2, unique=True))
            rows += [Row(at, pos, n, key, draw(st.none() | st.integers(0, 2))) for n, key in enumerate(keys)]
    by_partition = defaultdict(list)
    for row in sorted(rows):
        by_partition[row.at].append(row)
    arrivals = []
    while any(by_partition.values()):
        at = draw(st.sampled_from(sorted(at for at, left in by_partition.items() if left)))
        arrivals.append(by_partition[at].pop(0))
    return rows, arrivals


MODES = pytest.mark.parametrize(
    "merge", [UPSERT, DEDUPE, ORDERED, DELETING], ids=["upsert", "dedupe", "order_by", "deletes"]
)
History = tuple[list[Row], list[Row]]


def assert_right(engine: DuckEngine, merge: Merge, history: History) -> None:
    """In whatever order the table came about."""
    made, arrivals = history
    if merge.order_by:
        made, arrivals = ([row for row in rows if not row.tombstone] for rows in history)
    assert compare(engine, merge, made, list(merged(merge, arrivals).values())).findings == []


def assert_found(engine: DuckEngine, merge: Merge, history: History, data: st.DataObject) -> None:
    """A row that is lost, doubled, or of an event that another of its key has beaten."""
    made, arrivals = ([row for row in rows if not row.tombstone and row.at == A] for rows in history)
    right = merged(merge, arrivals)
    if not right:
        return
    hurt = data.draw(st.sampled_from(sorted(right)))
    rows = list(right.values())
    others = [row for row in rows if row.key != hurt]
    assert compare(engine, merge, made, others).totals == Counter({Anomaly.LOST_BEFORE_SINK: 1})
    assert compare(engine, merge, made, [*rows, right[hurt]]).totals == Counter({Anomaly.DOUBLED_IN_SINK: 1})
    places = {row.place for row in rows}
    for beaten in [row for row in made if row.key == hurt and row.place not in places][:2]:
        wrong = compare(engine, merge, made, [*others, beaten])
        assert wrong.totals == Counter({Anomaly.LOST_BEFORE_SINK: 1, Anomaly.DOUBLED_IN_SINK: 1})


@MODES
@settings(max_examples=5, deadline=None)
@given(history=histories())
def test_a_right_table_is_right(engine: DuckEngine, merge: Merge, history: History) -> None:
    assert_right(engine, merge, history)


@MODES
@settings(max_examples=3, deadline=None)
@given(history=histories(), data=st.data())
def test_each_wrong_row_is_found(engine: DuckEngine, merge: Merge, history: History, data: st.DataObject) -> None:
    assert_found(engine, merge, history, data)


@pytest.mark.proof
@MODES
@settings(max_examples=150, deadline=None)
@given(history=histories(), data=st.data())
def test_right_and_wrong_tables_of_many_histories(
    engine: DuckEngine, merge: Merge, history: History, data: st.DataObject
) -> None:
    assert_right(engine, merge, history)
    assert_found(engine, merge, history, data)


def test_a_key_that_two_partitions_brought_has_one_row(engine: DuckEngine) -> None:
    here, there = Row(A, 0, 0, "x"), Row(B, 0, 0, "x")
    for row in (here, there):
        assert compare(engine, UPSERT, [here, there], [row]).findings == []
    assert compare(engine, UPSERT, [here, there], [here, there]).totals == Counter({Anomaly.DOUBLED_IN_SINK: 1})
    assert compare(engine, UPSERT, [here, there], []).totals == Counter({Anomaly.LOST_BEFORE_SINK: 1})


def test_a_row_that_a_tombstone_should_have_deleted_is_found(engine: DuckEngine) -> None:
    made = [Row(A, 0, 0, "x"), Row(A, 1, 0, "x", None, True), Row(A, 2, 0, "y")]
    assert compare(engine, DELETING, made, [made[2]]).findings == []
    assert compare(engine, DELETING, made, [made[0], made[2]]).totals == Counter({Anomaly.DOUBLED_IN_SINK: 1})
    assert compare(engine, UPSERT, made, [made[1], made[2]]).findings == []


def test_of_equal_values_the_higher_place_wins_and_null_never_does(engine: DuckEngine) -> None:
    made = [Row(A, 3, 0, "x", 1), Row(B, 0, 0, "x", 1), Row(C, 9, 0, "x", None)]
    assert compare(engine, ORDERED, made, [made[1]]).findings == []
    for wrong in (made[0], made[2]):
        assert compare(engine, ORDERED, made, [wrong]).findings != []


def test_a_key_that_has_an_event_beyond_the_position_may_have_either_row(engine: DuckEngine) -> None:
    made = [Row(A, 0, 0, "x", 1), Row(A, 7, 0, "x", 2), Row(A, 1, 0, "y", 1)]
    for row in made[:2]:
        hop = compare(engine, ORDERED, made, [row, made[2]], until=5)
        assert hop.findings == []
    assert compare(engine, ORDERED, made, [made[0]], until=5).totals == Counter({Anomaly.LOST_BEFORE_SINK: 1})


@pytest.mark.parametrize("merge", [UPSERT, ORDERED, DELETING], ids=["upsert", "order_by", "deletes"])
def test_the_row_that_a_lost_event_would_have_replaced_is_not_doubled(engine: DuckEngine, merge: Merge) -> None:
    """At most once the position of a batch moves first: what went with it is lost, and no more than that is said."""
    made = [Row(A, 0, 0, "x", 1), Row(A, 7, 0, "x", 2, tombstone=merge.deletes), Row(A, 1, 0, "y", 1)]
    rows, lost = [made[0], made[2]], Counter({Anomaly.LOST_BEFORE_SINK: 0 if merge.deletes else 1})
    assert compare(engine, merge, made, rows, uncounted=[Span(5, 9)]).totals == +lost
    counted = Counter({Anomaly.DOUBLED_IN_SINK: 1})
    assert compare(engine, merge, made, rows, uncounted=[Span(0, 5)]).totals == lost + counted
