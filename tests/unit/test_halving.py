"""Halving finds every bad one, and tries little where all is good."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fencepost.halving import bad_ones


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
