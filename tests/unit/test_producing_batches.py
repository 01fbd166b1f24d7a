"""A source cut into batches, each of which can be had again."""

from __future__ import annotations

import itertools

import pytest

from fencepost.errors import PositionLost, Usage
from fencepost.model import EVENT_CHECKSUM, EVENT_ID
from fencepost.producing.batches import Chunks, Limits, Reader
from fencepost.producing.events import Event, headers_of, require_id
from fencepost.producing.sources.source import Numbered, Place, numbered_orders, orders


def numbers(events: list[Event]) -> list[int]:
    return [event.number for event in events]


def batches(source: Numbered, limits: Limits, place: Place | None = None) -> list[Chunks]:
    reader, found = Reader(source, place, limits), []
    while not reader.ended:
        batch = Chunks(reader, place)
        for _ in batch.chunks():
            pass
        found.append(batch)
        place = batch.after
    return found


@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (9, [9]), (10, [10, 0]), (25, [10, 10, 5])])
def test_a_batch_ends_at_its_limit_and_at_the_end(count: int, sizes: list[int]) -> None:
    found = batches(numbered_orders(count), Limits(records=10, chunk=4))
    assert [len(batch.events) for batch in found] == sizes
    assert [n for batch in found for n in numbers(batch.events)] == list(range(1, count + 1))
    for before, after in itertools.pairwise(found):
        assert before.after == after.before


def test_a_batch_ends_when_its_values_are_large() -> None:
    found = batches(numbered_orders(10, size=1000), Limits(size=2500, chunk=1))
    assert [len(batch.events) for batch in found] == [3, 3, 3, 1]


def test_after_an_attempt_that_was_cut_short_a_batch_begins_again_and_goes_on() -> None:
    batch = Chunks(Reader(numbered_orders(25), None, Limits(records=20, chunk=6)), None)
    attempt = batch.chunks()
    assert numbers(next(attempt)) == [1, 2, 3, 4, 5, 6]
    assert numbers(next(attempt)) == [7, 8, 9, 10, 11, 12]
    assert [n for chunk in batch.chunks() for n in numbers(chunk)] == list(range(1, 21))
    assert batch.after is not None
    assert batch.after["number"] == 20


def test_a_source_goes_on_behind_its_place() -> None:
    limits = Limits(records=10)
    (first, *_) = batches(numbered_orders(25), limits)
    assert [n for batch in batches(numbered_orders(30), limits, first.after) for n in numbers(batch.events)] == list(
        range(11, 31)
    )


def test_another_source_does_not_take_the_place() -> None:
    place = batches(numbered_orders(5), Limits())[0].after
    with pytest.raises(PositionLost, match="another source"):
        numbered_orders(5, keys=7).open(place)
    with pytest.raises(PositionLost, match="another source"):
        Numbered(lambda _after: orders(5), "mine").open(place)


def test_orders_have_the_size_that_was_asked_for() -> None:
    assert {len(event.value or b"") for event in orders(200, size=500)} == {500}
    assert {event.key for event in orders(50, keys=3)} == {b"c-0", b"c-1", b"c-2"}


def test_an_event_carries_its_id_and_the_checksum_of_its_value() -> None:
    ours = [(EVENT_ID, b"p:1"), (EVENT_CHECKSUM, b"cbf43926")]
    assert headers_of(b"123456789", b"p:1") == ours
    assert headers_of(b"123456789", b"p:1", {"a": b"b"}) == [*ours, ("a", b"b")]
    assert headers_of(None, b"p:1")[1] == (EVENT_CHECKSUM, b"00000000")


def test_our_own_headers_are_not_the_callers() -> None:
    with pytest.raises(Usage, match="is reserved"):
        headers_of(b"", b"p:1", [(EVENT_ID, b"x")])


@pytest.mark.parametrize("id_", ["", "a\nb", "x" * 1001])
def test_an_id_fits_into_a_line(id_: str) -> None:
    with pytest.raises(Usage, match="is not a valid event id"):
        require_id(id_)
