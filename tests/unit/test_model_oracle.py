"""The oracle of tests/model by itself: it must be able to say yes, and to say no."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from model.case import Behaviour, Case, Change, Existing, Record
from model.oracle import World
from model.seen import Seen, SpanSeen
from model.values import BAD, KINDS

SLOT = (0, 0)
PLAIN = Case(
    guarantee="exactly-once",
    mode="append",
    key=(),
    order_by=None,
    deletes=False,
    provenance=True,
    dead_letter=False,
    max_share=None,
    transform=None,
    fields=(("k", KINDS["long"]), ("a", KINDS["string"])),
    batch=1_000,
    partitions=(1,),
    existing=Existing.NONE,
    turns=(),
)
UPSERT = replace(PLAIN, mode="upsert", key=("k",))
DELETES = replace(UPSERT, deletes=True, transform=Behaviour.AS_IS)
BROKEN = Record(SLOT, b"1", b"not json", None)


def record(k: int | None, a: Any = "x", **more: Any) -> Record:
    return Record(SLOT, str(k).encode(), b"{}", {"k": k, "a": a, **more})


def tombstone(k: int) -> Record:
    return Record(SLOT, str(k).encode(), None, None)


def world(case: Case, *records: Record) -> World:
    made = World(case, {SLOT: 0})
    made.come({(SLOT, offset): each for offset, each in enumerate(records)})
    return made


def ended(position: int, how: str = "well", dead: tuple[int, ...] = (), **more: Any) -> Seen:
    return Seen(how, positions={SLOT: position}, dead=Counter((SLOT, offset) for offset in dead), **more)


def values(made: World) -> list[tuple[Any, Any]]:
    return [(row.values["k"], row.values["a"]) for row in made.rows]


def test_every_good_record_has_a_row() -> None:
    made = world(PLAIN, record(1), record(1), record(None))
    assert not list(made.ran(ended(3)))
    assert values(made) == [(1, "x"), (1, "x"), (None, "x")]
    assert made.counted == [3, 0]


def test_a_run_that_ends_well_has_read_everything() -> None:
    assert list(world(PLAIN, record(1), record(2)).ran(ended(1))) == ["it ended well, and has not read {(0, 0): 1}"]


def test_a_bad_record_stops_the_run_before_it_and_nothing_else_does() -> None:
    assert not list(world(PLAIN, record(1), BROKEN, record(2)).ran(ended(1, "refused")))
    assert not list(world(PLAIN, record(1), BROKEN, record(2)).ran(ended(0, "refused", named=((SLOT, 1),))))
    (went_by,) = world(PLAIN, record(1), BROKEN).ran(ended(2))
    assert "went by, though it is bad" in went_by
    (for_nothing,) = world(PLAIN, record(1)).ran(ended(0, "refused"))
    assert "nothing to refuse" in for_nothing
    (blamed,) = world(PLAIN, record(1), BROKEN).ran(ended(0, "refused", named=((SLOT, 0),)))
    assert "blames records that are good" in blamed


def test_with_dead_letters_a_bad_record_is_there_and_a_good_one_is_not() -> None:
    case = replace(PLAIN, dead_letter=True)
    made = world(case, record(1), BROKEN)
    assert not list(made.ran(ended(2, dead=(1,))))
    assert (values(made), made.counted) == ([(1, "x")], [1, 1])
    (missing,) = world(case, BROKEN).ran(ended(1))
    assert "not among the dead letters" in missing
    (diverted,) = world(case, record(1)).ran(ended(1, dead=(0,)))
    assert "dead letters that are none" in diverted


def test_the_newest_event_of_a_key_has_the_row_and_an_older_one_that_comes_again_has_not() -> None:
    made = world(UPSERT, record(1, "old"), record(1, "new"), record(2))
    assert not list(made.ran(ended(3)))
    made.set_back(SLOT, 0)
    assert not list(made.ran(ended(1, "crashed", crashed=("delivered", SLOT, 0, 1))))
    assert sorted(values(made)) == [(1, "new"), (2, "x")]


def test_dedupe_keeps_the_first() -> None:
    made = world(replace(PLAIN, mode="dedupe", key=("k",)), record(1, "old"), record(1, "new"))
    assert not list(made.ran(ended(2)))
    assert values(made) == [(1, "old")]


def test_with_order_by_the_highest_value_has_the_row_and_null_is_lowest() -> None:
    case = replace(UPSERT, order_by="o", fields=(*UPSERT.fields, ("o", KINDS["double"])))
    values_of_o = [1.0, None, float("nan"), 2.0]
    made = world(case, *(record(1, str(o), o=o) for o in values_of_o))
    assert not list(made.ran(ended(4)))
    assert values(made) == [(1, "nan")]


def test_a_tombstone_deletes_and_its_key_may_come_back() -> None:
    made = world(DELETES, record(1), record(2), tombstone(1), tombstone(9), tombstone(2), record(2, "again"))
    assert not list(made.ran(ended(6)))
    assert values(made) == [(2, "again")]


@pytest.mark.parametrize(
    ("existing", "bad"),
    [
        (Existing.NARROW, record(1, "too long")),
        (Existing.NOT_NULL, record(1, None)),
        (Existing.CHECK, record(7)),
        (Existing.UNIQUE, record(2)),
    ],
)
def test_what_the_table_refuses_is_bad(existing: Existing, bad: Record) -> None:
    case = replace(PLAIN, dead_letter=True, existing=existing)
    made = world(case, record(2), bad, record(3))
    assert not list(made.ran(ended(3, dead=(1,))))
    assert values(made) == [(2, "x"), (3, "x")]


def test_a_row_that_another_of_its_key_replaces_at_once_may_be_bad_or_not() -> None:
    case = replace(UPSERT, dead_letter=True, existing=Existing.NOT_NULL)
    for dead in ((), (0,)):
        made = world(case, record(1, None), record(1, "good"))
        assert not list(made.ran(ended(2, dead=dead)))
        assert values(made) == [(1, "good")]


def test_a_transform_filters_doubles_and_raises() -> None:
    for behaviour, rows in ((Behaviour.FILTERING, 1), (Behaviour.DOUBLING, 4)):
        made = world(replace(PLAIN, transform=behaviour), record(3), record(4))
        assert not list(made.ran(ended(2)))
        assert len(made.rows) == rows
    assert not list(world(replace(PLAIN, transform=Behaviour.RAISING), record(13)).ran(ended(0, "refused")))


def test_a_crash_repeats_or_loses_what_the_guarantee_says() -> None:
    written, advanced = (("written", SLOT, 0, 1), ("advanced", SLOT, 0, 1))
    repeats = world(replace(PLAIN, guarantee="at-least-once"), record(1))
    assert not list(repeats.ran(ended(0, "crashed", crashed=written)))
    assert not list(repeats.ran(ended(1)))
    assert len(repeats.rows) == 2
    loses = world(replace(PLAIN, guarantee="at-most-once"), record(1))
    assert not list(loses.ran(ended(1, "crashed", crashed=advanced)))
    assert (loses.rows, loses.lost) == ([], {(SLOT, 0)})


def test_at_least_once_into_a_unique_index_knows_its_own_rows_again() -> None:
    case = replace(PLAIN, guarantee="at-least-once", existing=Existing.UNIQUE)
    made = world(case, record(1), record(2))
    assert not list(made.ran(ended(0, "crashed", crashed=("written", SLOT, 0, 2))))
    assert not list(made.ran(ended(2)))
    assert (values(made), made.counted) == ([(1, "x"), (2, "x")], [0, 0])
    made.come({(SLOT, 2): record(1)})
    assert not list(made.ran(ended(2, "refused", named=((SLOT, 2),))))


def test_a_table_that_changes_stops_the_run_and_makes_no_dead_letters() -> None:
    case = replace(PLAIN, dead_letter=True)
    assert not list(world(case, record(1)).ran(ended(0, "refused", changed=Change.RENAME)))
    (diverted,) = world(case, record(1)).ran(ended(1, dead=(0,), changed=Change.RENAME))
    assert "dead letters that are none" in diverted


def test_ten_bad_records_in_a_row_stop_a_run_unless_it_is_told_to_go_on() -> None:
    many = [BROKEN] * 10
    case = replace(PLAIN, dead_letter=True)
    assert not list(world(case, *many).ran(ended(0, "refused")))
    span = (SpanSeen(SLOT, 0, 10),)
    (went_on,) = world(case, *many).ran(ended(10, dead=tuple(range(10)), spans=span))
    assert "did not stop" in went_on
    assert not list(world(replace(case, max_share=1.0), *many).ran(ended(10, dead=tuple(range(10)), spans=span)))
    (too_early,) = world(case, *many[:9], record(1)).ran(ended(0, "refused"))
    assert "nothing to refuse" in too_early


def test_an_unexpected_error_is_never_right() -> None:
    (told,) = world(PLAIN, record(1, BAD)).ran(ended(0, "UnicodeEncodeError"))
    assert "it ended with UnicodeEncodeError" in told
