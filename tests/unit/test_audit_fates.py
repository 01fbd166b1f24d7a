"""What may be said of an event: processed or filtered only where a commit carried it and said what it wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.audit.fates import Carried, Fate, Lookup, Record, by_position, by_rows
from fencepost.model import Mode, Span

WRITTEN, UNCOUNTED = Carried(Span(0, 10), 10), Carried(Span(0, 10), None)
CARRIED = Record(5, 10, [WRITTEN])
THERE = Lookup(rows=0, readable=True, in_span=10)


@pytest.mark.parametrize(
    ("record", "fate"),
    [
        (CARRIED, Fate.PROCESSED),
        (Record(10, 10), Fate.WAITING),
        (Record(5, None), Fate.WAITING),
        (Record(5, None, begins=None), Fate.UNKNOWN),  # start: latest, and it has not begun
        (Record(5, 10), Fate.SKIPPED),  # positions set, or begun behind it
        (Record(5, 10, forgotten=True), Fate.UNKNOWN),  # the table forgot its first commits
        (Record(5, 10, [UNCOUNTED]), Fate.UNKNOWN),  # at-most-once, or gone before it was read
        (Record(5, 10, [UNCOUNTED, WRITTEN]), Fate.PROCESSED),  # read again under another word
        (Record(5, 3, [WRITTEN]), Fate.WAITING),  # set back
    ],
)
def test_the_position_alone(record: Record, fate: Fate) -> None:
    assert by_position(record)[0] is fate


@pytest.mark.parametrize("begins", [True, None])
def test_a_pipeline_that_was_renamed_is_told_where_to_ask(begins: bool | None) -> None:
    _, note = by_position(Record(5, None, begins=begins))
    assert "if it was renamed, ask under its former name" in note
    assert ("first run" in note) == (begins is None)


@pytest.mark.parametrize(
    ("look", "fate"),
    [
        (THERE, Fate.FILTERED),
        (Lookup(rows=1), Fate.LANDED),
        (Lookup(rows=0, dead="why"), Fate.DEAD),
        (Lookup(rows=0), Fate.GONE),
        (replace(THERE, in_span=9), Fate.UNKNOWN),  # somebody took a row of its commit away
        (replace(THERE, mode=Mode.UPSERT), Fate.NO_ROW),
        (replace(THERE, mode=Mode.DEDUPE), Fate.NO_ROW),
    ],
)
def test_a_look_at_what_was_carried(look: Lookup, fate: Fate) -> None:
    assert by_rows(CARRIED, look)[0] is fate


@pytest.mark.parametrize("record", [Record(5, 10), Record(5, 10, [UNCOUNTED]), Record(12, 10)])
def test_a_record_without_a_row_that_nobody_is_known_to_have_carried_keeps_its_fate(record: Record) -> None:
    assert by_rows(record, THERE)[0] is by_position(record)[0]


OF_ANOTHER = replace(CARRIED, others=[WRITTEN])  # a topic of the same name had the same offsets, and was deleted


@pytest.mark.parametrize(
    ("record", "look", "fate"),
    [
        (Record(5, 10, others=[WRITTEN]), Lookup(rows=1, firsts=1), Fate.UNKNOWN),
        (OF_ANOTHER, Lookup(rows=1, firsts=1), Fate.UNKNOWN),  # whose is it?
        (OF_ANOTHER, Lookup(rows=2, firsts=2), Fate.LANDED),  # the other had one at most
        (OF_ANOTHER, Lookup(rows=2, firsts=1), Fate.UNKNOWN),  # two rows of one event
        (OF_ANOTHER, Lookup(rows=2), Fate.UNKNOWN),  # at-least-once: the other's event may be there twice
        (replace(CARRIED, others=[Carried(Span(0, 10), 0)]), Lookup(rows=1, firsts=1), Fate.LANDED),  # it had no row
        (replace(CARRIED, others=[Carried(Span(0, 5), 5)]), Lookup(rows=1), Fate.LANDED),  # it was not at this offset
        (OF_ANOTHER, THERE, Fate.UNKNOWN),  # as many rows as its commit wrote, and some are of the other
        (OF_ANOTHER, Lookup(rows=0, dead="why"), Fate.DEAD),
        (
            replace(CARRIED, others=[Carried(Span(0, 10), 9, 1)]),
            Lookup(rows=0, dead="why"),
            Fate.GONE,
        ),  # the other's letter
    ],
)
def test_what_a_topic_that_was_deleted_left_at_the_same_place_proves_nothing(
    record: Record, look: Lookup, fate: Fate
) -> None:
    assert by_rows(record, look)[0] is fate


def test_a_letter_that_may_be_of_either_topic_leaves_it_open() -> None:
    one_dead = Carried(Span(0, 10), 9, 1)
    fate, note = by_rows(Record(5, 10, [one_dead], others=[one_dead]), Lookup(rows=0, dead="why"))
    assert (fate, "dead letter" in note) == (Fate.UNKNOWN, True)


CARRIES = st.builds(
    lambda start, size, rows: Carried(Span(start, start + size), rows),
    st.integers(0, 9),
    st.integers(1, 9),
    st.none() | st.integers(0, 9),
)


@given(
    st.integers(0, 12),
    st.none() | st.integers(0, 12),
    st.lists(CARRIES, max_size=3),
    st.builds(
        Lookup, st.integers(0, 2), st.booleans(), st.booleans(), st.booleans(), st.sampled_from(Mode), st.integers(0, 9)
    ),
)
def test_nothing_that_was_never_carried_is_called_processed_or_filtered(
    offset: int, position: int | None, spans: list[Carried], look: Lookup
) -> None:
    over = [one for one in spans if one.span.start <= offset < one.span.end]
    record = Record(offset, position, over)
    said = {by_position(record)[0], by_rows(record, look)[0]}
    if not any(one.rows is not None for one in over):
        assert not said & {Fate.PROCESSED, Fate.FILTERED, Fate.NO_ROW, Fate.GONE}
    if position is not None and offset < position:
        assert Fate.WAITING not in said
