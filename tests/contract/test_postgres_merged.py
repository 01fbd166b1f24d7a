"""Upsert and dedupe, as properties: however spans are cut, shuffled and repeated, the same event has the row."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.keyed import BY_TIME, DEDUPE, DELETING, UPSERT, Event, Maker
from fencepost.sinks.postgres import new_keys

pytestmark = pytest.mark.proof
EVENTS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abcdef")), min_size=1, max_size=12)
CUTS = st.lists(st.integers(0, 12), max_size=4)
PICKS = st.lists(st.integers(0, 9), max_size=8)
thorough = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def spans(events: list[Event], cuts: list[int]) -> list[tuple[int, list[Event]]]:
    edges = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    return [(start, events[start:end]) for start, end in pairwise(edges)]


def numbered(events: list[Event]) -> list[Event]:
    """Values that tell the events apart."""
    return [(key, f"{value}{number}") for number, (key, value) in enumerate(events)]


@given(events=EVENTS, cuts=CUTS, picks=PICKS, order=st.randoms(use_true_random=False))
@thorough
def test_upsert_ends_the_same_in_whatever_order_and_how_often_spans_come(
    keyed: Maker, events: list[Event], cuts: list[int], picks: list[int], order: st.DataObject
) -> None:
    shop = keyed(UPSERT)
    whole = spans(numbered(events), cuts)
    arriving = [*whole, *(whole[pick % len(whole)] for pick in picks)]
    order.shuffle(arriving)  # type: ignore[attr-defined]
    for start, part in arriving:
        shop.write(start, part)
    assert shop.table() == dict(numbered(events))


@given(events=EVENTS, cuts=CUTS, picks=PICKS)
@thorough
def test_dedupe_ends_with_the_first_however_often_spans_come_again(
    keyed: Maker, events: list[Event], cuts: list[int], picks: list[int]
) -> None:
    shop = keyed(DEDUPE)
    whole = spans(numbered(events), cuts)
    for start, part in [*whole, *(whole[pick % len(whole)] for pick in picks)]:
        shop.write(start, part)
    assert shop.table() == dict(reversed(numbered(events)))


@given(
    both=st.tuples(EVENTS, EVENTS), cuts=CUTS, times=st.lists(st.integers(0, 3), min_size=24, max_size=24),
    picks=PICKS, order=st.randoms(use_true_random=False),
)  # fmt: skip
@thorough
def test_order_by_ends_the_same_in_whatever_order_two_partitions_come(
    keyed: Maker,
    both: tuple[list[Event], list[Event]],
    cuts: list[int],
    times: list[int],
    picks: list[int],
    order: st.DataObject,
) -> None:
    shop = keyed(BY_TIME)
    whole = [(number, *one) for number in (0, 1) for one in spans(numbered(both[number]), cuts)]
    arriving = [*whole, *(whole[pick % len(whole)] for pick in picks)]
    order.shuffle(arriving)  # type: ignore[attr-defined]
    for partition, start, part in arriving:
        shop.write(start, part, partition, at=[times[12 * partition + start + i] for i in range(len(part))])
    ranked = sorted(
        (times[12 * partition + offset], partition, offset, *event)
        for partition in (0, 1)
        for offset, event in enumerate(numbered(both[partition]))
    )
    assert shop.table() == {key: value for *_, key, value in ranked}


KEYS = st.lists(st.integers(0, 500), min_size=8, max_size=20, unique=True)
DELETED = st.lists(st.integers(0, 99), min_size=1, max_size=3)  # which of the keys before


@given(changes=st.lists(st.tuples(KEYS, DELETED), min_size=2, max_size=4), sample=st.integers(1, 3))
@thorough
def test_deletes_among_inserts_end_as_one_after_the_other(
    keyed: Maker, monkeypatch: pytest.MonkeyPatch, changes: list[tuple[list[int], list[int]]], sample: int
) -> None:
    """With samples so small that they are mostly wrong."""
    monkeypatch.setattr(new_keys, "SAMPLE", sample)
    shop, events = keyed(DELETING), list[Event]()
    for keys, deleted in changes:
        start, known = len(events), [key for key, _ in events] or [0]
        events += [*((key, "new") for key in keys), *((known[pick % len(known)], None) for pick in deleted)]
        shop.write(start, events[start:])
    assert shop.table() == {key: value for key, value in dict(events).items() if value is not None}
