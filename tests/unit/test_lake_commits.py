"""What a lake's commits say of their batches, and what is made of it."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.fence import StoredPosition
from fencepost.model import Landed, Span, TopicPartition
from fencepost.sinks.auditing import Commit
from fencepost.sinks.changes import Kept
from fencepost.sinks.lake.commits import Carried, Count, commits_at, landed, listed
from fencepost.sinks.lake.document import Document

ZERO, ONE = TopicPartition("o", 0), TopicPartition("o", 1)
OWNER, NOW = uuid4(), datetime(2026, 1, 1, tzinfo=UTC)
STORED = {at: StoredPosition(20, OWNER, 1, "new", NOW) for at in (ZERO, ONE)}


def carried(start: int, end: int, rows: int | None = 10, **more: object) -> Carried:
    told = {ZERO: rows} if rows is not None else None
    return Carried({ZERO: Span(start, end)}, rows, told, topic_ids={"o": "new"}, **more)  # type: ignore[arg-type]


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.text(max_size=9), st.integers(0, 9)),
        st.tuples(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 99), st.integers(1, 9)),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
    st.booleans(),
)
def test_what_is_written_is_read(
    drawn: dict[TopicPartition, tuple[int, int, int, int]], counted: bool, back: bool
) -> None:
    told = Carried(
        {at: Span(min(one[:2]), max(one[:2])) for at, one in drawn.items()},
        sum(one[2] for one in drawn.values()) if counted else None,
        {at: one[2] for at, one in drawn.items()} if counted else None,
        {at: one[3] for at, one in drawn.items()},
        {at.topic: None for at in drawn},
        back,
    )
    assert Carried.from_json(told.to_json()) == told


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"spans": [[1]]}', '{"spans": 3}', "{" * 5000])
def test_what_is_not_understood_is_not_on_record(text: str) -> None:
    assert Carried.from_json(text) is None


def test_commits_are_told_in_their_order_without_those_that_were_put_back() -> None:
    told = [carried(0, 10), carried(10, 20, None), carried(10, 20, back=True), carried(10, 20)]
    assert listed(STORED, told, forgotten=False) == [Commit(ZERO, Span(0, 10), 10), Commit(ZERO, Span(10, 20), 10)]


def test_a_partition_of_which_no_commit_is_left_begins_at_its_position() -> None:
    assert listed(STORED, [carried(0, 20)], forgotten=True) == [
        Commit(ZERO, Span(0, 20), 10),
        Commit(ONE, Span(20, 20), 0),
    ]
    assert listed(STORED, [carried(0, 20)], forgotten=False) == [Commit(ZERO, Span(0, 20), 10)]


def test_commits_of_a_topic_that_was_deleted_are_told_apart() -> None:
    old = Carried({ZERO: Span(0, 10)}, 10, {ZERO: 10}, topic_ids={"o": "old"})
    found = listed(STORED, [old, carried(0, 20)], forgotten=False)
    assert [one.partition.topic for one in found] == ["o@old", "o"]
    at = commits_at(STORED, found, ZERO, 5, forgotten=True)
    assert ([one.span for one in at.over], [one.span for one in at.earlier], at.forgotten) == (
        [Span(0, 20)],
        [Span(0, 10)],
        True,
    )


def test_totals_go_on_and_begin_anew_with_an_owner() -> None:
    first = Document(0, {}).following(Kept(STORED), None, carried(0, 10))
    second = first.following(Kept(STORED), None, carried(10, 20, 3, dead={ZERO: 2}))
    assert (second.number, second.total, second.begun) == (2, Count(13, 2), Count())
    later = {at: StoredPosition(20, OWNER, 2, "new", NOW) for at in STORED}
    third = second.following(Kept(later), None, None)
    assert (third.total, third.begun) == (Count(13, 2), Count(13, 2))
    fourth = third.following(Kept(later), None, carried(20, 30, 5))
    assert landed(later, fourth.total, fourth.begun, [OWNER]) == Landed(5)
    assert landed(later, fourth.total, fourth.begun, [uuid4()]) == Landed(0)
