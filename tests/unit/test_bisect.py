"""Halving finds every bad one, and tries little where all is good."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.rows.bisect import bad_ones


@given(st.sets(st.integers(10, 200)))
def test_every_bad_one_is_found_in_order(bad: set[int]) -> None:
    def why(start: int, end: int) -> str | None:
        worst = [number for number in range(start, end) if number in bad]
        return f"bad {worst[0]}" if worst else None

    assert bad_ones(10, 201, why, most=1000) == [(number, f"bad {number}") for number in sorted(bad)]


def test_it_stops_at_the_most_and_tries_a_good_range_once() -> None:
    tries: list[tuple[int, int]] = []

    def why(start: int, end: int) -> str | None:
        tries.append((start, end))
        return "bad"

    assert bad_ones(0, 1_000_000, why, most=3) == [(0, "bad"), (1, "bad"), (2, "bad")]
    assert len(tries) < 30
    assert bad_ones(0, 1_000_000, lambda *_: None, most=3) == []
    assert bad_ones(5, 5, why, most=3) == []


TRIES = [(1, 1.01), (2, 1.01), (4, 1.01), (10, 0.6), (1_000, 0.02), (24_000, 0.003)]


@pytest.mark.parametrize(("every", "tries"), TRIES)
def test_it_takes_one_try_each_where_many_are_bad_and_few_tries_where_few_are(every: int, tries: float) -> None:
    asked = 0

    def why(start: int, end: int) -> str | None:
        nonlocal asked
        asked += 1
        return "bad" if -start % every < end - start else None

    assert [number for number, _ in bad_ones(0, 24_000, why, most=24_000)] == list(range(0, 24_000, every))
    assert asked <= tries * 24_000


def test_one_that_was_good_is_not_tried_again_and_may_make_a_later_one_bad() -> None:
    taken: set[int] = set()

    def why(start: int, end: int) -> str | None:
        values = [number % 10 for number in range(start, end)]
        assert taken.isdisjoint(range(start, end))
        if len(set(values)) < len(values) or any(value == number % 10 for number in taken for value in values):
            return "twice"
        taken.update(range(start, end))
        return None

    assert [number for number, _ in bad_ones(0, 100, why, most=1000)] == list(range(10, 100))


def test_a_range_may_be_refused_none_of_whose_members_is() -> None:
    asked = []

    def why(start: int, end: int) -> str | None:
        asked.append((start, end))
        return "too many at once" if end - start > 1 else None

    assert bad_ones(0, 1_000, why, most=3) == []
    assert len(asked) < 2_100
