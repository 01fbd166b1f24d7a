"""Upsert, dedupe and append into a real table: which event has the row of its key in the end."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pytest

from contract.keyed import BY_TIME, DEDUPE, DELETING, UPSERT, Event, Keyed, Maker
from fencepost.errors import Poison, Refused
from fencepost.guarantee import Guarantee
from fencepost.model import Landed, Merge, Mode
from fencepost.rows.dead_letters import SCHEMA
from fencepost.sinks.postgres import PostgresStore, dead_letters, merging
from fencepost.sinks.postgres.columns import TOMBSTONE
from fencepost.sinks.postgres.table import make_table, read_columns


def test_upsert_keeps_the_highest_offset_within_a_batch_and_after_it(keyed: Maker) -> None:
    shop = keyed(UPSERT)
    assert shop.write(0, [(1, "a"), (2, "b"), (1, "c")]) == Landed(rows=3)
    assert shop.table() == {1: "c", 2: "b"}
    shop.write(3, [(2, "d"), (3, "e")])
    assert shop.table() == {1: "c", 2: "d", 3: "e"}


def test_upsert_is_not_fooled_by_an_older_batch_that_comes_late(keyed: Maker) -> None:
    shop = keyed(UPSERT)
    shop.write(5, [(1, "new")])
    shop.write(0, [(1, "old"), (2, "old")])
    assert shop.table() == {1: "new", 2: "old"}


def test_control_rows_that_do_not_know_where_they_came_from_are_overwritten_by_older_ones(keyed: Maker) -> None:
    shop = keyed(UPSERT, provenance=False)
    shop.write(5, [(1, "x"), (1, "new")])
    assert shop.table() == {1: "new"}
    shop.write(0, [(1, "old")])
    assert shop.table() == {1: "old"}


def test_the_same_events_again_may_bring_what_another_transform_makes_of_them(keyed: Maker) -> None:
    shop = keyed(UPSERT)
    shop.write(0, [(1, "a"), (2, "b")])
    shop.write(0, [(1, "A"), (2, "B")])
    assert shop.table() == {1: "A", 2: "B"}


def test_across_partitions_the_later_commit_has_the_row(keyed: Maker) -> None:
    shop = keyed(UPSERT)
    shop.write(9, [(1, "from 0")], partition=0)
    shop.write(0, [(1, "from 1")], partition=1)
    assert shop.table() == {1: "from 1"}


def test_with_order_by_the_highest_has_the_row_wherever_it_came_from(keyed: Maker) -> None:
    shop = keyed(BY_TIME)
    shop.write(9, [(1, "noon"), (2, "none")], partition=0, at=[12, None])
    shop.write(0, [(1, "morning"), (1, "ten"), (2, "some")], partition=1, at=[8, 10, 1])
    assert shop.table() == {1: "noon", 2: "some"}
    shop.write(10, [(1, "late"), (2, "none again")], partition=0, at=[9, None])
    assert shop.table() == {1: "noon", 2: "some"}


def test_rows_that_somebody_else_put_there_count_as_older(keyed: Maker) -> None:
    for merge in (UPSERT, BY_TIME):
        shop = keyed(merge)
        shop.sql("INSERT INTO {} (id, v) VALUES (1, 'theirs')")
        shop.write(0, [(1, "ours")])
        assert shop.table() == {1: "ours"}


def test_dedupe_keeps_the_first_of_a_key_whoever_sends_it_again(keyed: Maker) -> None:
    shop = keyed(DEDUPE)
    assert shop.write(0, [(1, "first"), (1, "again"), (2, "first")]) == Landed(rows=3)
    shop.write(3, [(2, "again"), (3, "first")])
    shop.write(0, [(3, "elsewhere"), (4, "first")], partition=1)
    assert shop.table() == {1: "first", 2: "first", 3: "first", 4: "first"}


def test_dedupe_needs_no_provenance(keyed: Maker) -> None:
    shop = keyed(DEDUPE, provenance=False)
    shop.write(0, [(1, "first"), (1, "again")])
    shop.write(0, [(1, "first"), (1, "again")])
    assert shop.table() == {1: "first"}


@pytest.mark.parametrize(("merge", "rows"), [(None, 4), (UPSERT, 2), (DEDUPE, 2)], ids=["append", "upsert", "dedupe"])
def test_what_at_least_once_repeats_is_doubled_by_append_and_by_no_other_mode(
    keyed: Maker, merge: Merge | None, rows: int
) -> None:
    """The rows of a span whose position was not moved before the crash, and then the span again."""
    shop = keyed(merge)
    shop.write(0, [(1, "a"), (2, "b")])
    shop.successor()
    assert shop.deliver(0, [(1, "a"), (2, "b")], Guarantee.AT_LEAST_ONCE) == Landed(rows=2)
    assert shop.count() == rows


@pytest.mark.parametrize(("merge", "last"), [(None, 3), (UPSERT, 1), (DEDUPE, 1)], ids=["append", "upsert", "dedupe"])
@pytest.mark.parametrize("guarantee", Guarantee)
def test_what_a_producer_sent_twice_is_one_row_under_every_word_but_not_for_append(
    keyed: Maker, merge: Merge | None, last: int, guarantee: Guarantee
) -> None:
    shop = keyed(merge)
    shop.deliver(0, [(1, "sent"), (1, "sent")], guarantee)
    shop.deliver(2, [(1, "sent")], guarantee)
    assert shop.count() == last


def test_an_event_without_a_value_deletes_and_a_later_one_brings_the_row_back(keyed: Maker) -> None:
    shop = keyed(DELETING)
    shop.write(0, [(1, "a"), (2, "b"), (3, "c"), (9, None)])
    shop.write(4, [(1, None), (2, None), (2, "again"), (3, "more"), (3, None)])
    assert shop.table() == {2: "again"}
    shop.write(9, [(1, "back")])
    shop.write(10, [(10, None)])
    assert shop.table() == {1: "back", 2: "again"}


def test_a_delete_that_comes_late_does_not_take_a_newer_row(keyed: Maker) -> None:
    shop = keyed(DELETING)
    shop.write(5, [(1, "new")])
    shop.write(2, [(1, None)])
    assert shop.table() == {1: "new"}
    shop.write(0, [(1, None)], partition=1)  # across partitions the later commit counts
    assert shop.table() == {}


def test_control_after_a_delete_an_older_event_that_comes_again_brings_the_row_back(keyed: Maker) -> None:
    """Why deletes are refused where events can come again: see rules.merge_findings."""
    shop = keyed(DELETING)
    shop.write(0, [(1, "a")])
    shop.write(1, [(1, None)])
    shop.write(0, [(1, "a")])
    assert shop.table() == {1: "a"}


def test_behind_the_fence_it_does_not(keyed: Maker) -> None:
    shop = keyed(DELETING)
    shop.deliver(0, [(1, "a")], Guarantee.EXACTLY_ONCE)
    shop.deliver(1, [(1, None)], Guarantee.EXACTLY_ONCE)
    assert shop.deliver(1, [(1, None)], Guarantee.EXACTLY_ONCE).already
    assert shop.table() == {}


def test_a_key_that_is_null_is_a_bad_record_and_nothing_of_its_span_lands(keyed: Maker) -> None:
    shop = keyed(UPSERT)
    with pytest.raises(Poison) as refused:
        shop.write(10, [(1, "a"), (None, "b"), (2, "c"), (None, "d")])
    assert [offset for offset, _ in refused.value.records] == [11, 13]
    assert "'id' is null" in refused.value.records[0][1]
    assert shop.table() == {}
    assert shop.write(10, [(1, "a")]).rows == 1
    with pytest.raises(Refused, match="'id' is null"):
        keyed(DEDUPE, provenance=False).write(0, [(None, "b")])


def test_rows_that_the_table_does_not_take_are_named_by_their_offsets(keyed: Maker) -> None:
    shop = keyed(UPSERT)
    shop.sql("ALTER TABLE {} ADD CHECK (v <> 'bad')")
    with pytest.raises(Poison) as refused:
        shop.write(70, [(1, "a"), (2, "bad"), (3, "c"), (4, "bad"), (5, "bad"), (5, "good")])
    assert [offset for offset, _ in refused.value.records] == [71, 73]  # 74 is not to be stored
    assert shop.table() == {}
    with pytest.raises(Poison) as refused:
        shop.write(70, [(1, "a"), (2, "a\0b")])
    assert [offset for offset, _ in refused.value.records] == [71]
    shop.write(70, [(1, "a")])
    assert shop.table() == {1: "a"}


@pytest.mark.parametrize("merge", [UPSERT, DELETING, DEDUPE], ids=["upsert", "delete", "dedupe"])
def test_of_very_many_bad_rows_each_is_named_and_those_that_lose_to_another_are_not(keyed: Maker, merge: Merge) -> None:
    """Every other key is bad. In the end each comes again, good: dedupe keeps the first, so there it stays bad."""
    shop = keyed(merge)
    shop.sql("ALTER TABLE {} ADD CHECK (v <> 'bad'), ADD UNIQUE (v)")
    shop.store = PostgresStore(replace(shop.settings, most_bad=1_000))
    events: list[Event] = [(key, "bad" if key % 2 else str(key // 4 * 2)) for key in range(200)]
    again: list[Event] = [(key, f"mended {key}") for key in range(1, 100, 2)]
    twice = range(2, 200, 4)  # the value of the key two before
    bad = [*range(1 if merge is DEDUPE else 101, 200, 2), *twice]
    with closing(shop.store), pytest.raises(Poison) as refused:
        shop.write(0, [*events, *again])
    reasons = dict(refused.value.records)
    assert sorted(reasons) == sorted(bad)
    assert all("duplicate key" in reasons[offset] for offset in twice)
    assert all("check constraint" in reasons[offset] for offset in bad if offset % 2)
    assert shop.table() == {}


def test_dead_letters_land_in_the_same_transaction(keyed: Maker) -> None:
    shop = keyed(DEDUPE)
    aside = dead_letters.table_for(shop.name)
    make_table(shop.connection, aside, dead_letters.COLUMNS)
    letter = {"topic": "orders", "partition": 0, "offset": 1, "_dead": "why", "headers": "[]"}
    letters = pa.RecordBatch.from_pylist([letter], schema=SCHEMA)
    landed = shop.store.write(shop.batch(0, 0, letters, shop.rows(0, 0, [(1, "a"), (1, "a")])))
    assert landed == Landed(rows=2, dead=1)
    assert shop.connection.execute(f"SELECT _dead FROM {aside}").fetchall() == [("why",)]
    shop.connection.execute(f"DROP TABLE {aside}")


def test_a_key_of_several_columns_and_nothing_else(keyed: Maker) -> None:
    shop = keyed(Merge(Mode.UPSERT, ("at", "v", "id")), provenance=False)
    shop.write(0, [(1, "a"), (2, "a"), (1, "b"), (1, "a")])
    shop.write(0, [(1, "a"), (3, "a")])
    assert shop.count() == 4


def staged(shop: Keyed) -> int:
    """How many rows of the last span went through the stage."""
    (count,) = shop.store.connection().execute("SELECT count(*) FROM fencepost_staged").fetchone() or (0,)
    return int(count)


def many(first: int, last: int, value: str) -> list[Event]:
    return [(key, value) for key in range(first, last)]


@pytest.mark.parametrize("merge", [UPSERT, DEDUPE, BY_TIME, DELETING], ids=["upsert", "dedupe", "order_by", "deletes"])
def test_new_keys_go_straight_into_the_table_and_of_the_others_only_what_must_be_merged(
    keyed: Maker, merge: Merge
) -> None:
    shop = keyed(merge)
    shop.write(0, many(0, 900, "new"))
    assert staged(shop) == 0
    shop.write(900, [*many(800, 1800, "newer"), (2000, "once"), (2000, "twice"), (2001, None)])
    assert staged(shop) == (2 if merge is DEDUPE else 103 if merge is DELETING else 102)  # a tombstone is never new
    kept, last = ("new", "once") if merge is DEDUPE else ("newer", "twice")
    expected = dict([*many(0, 800, "new"), *many(800, 900, kept), *many(900, 1800, "newer"), (2000, last)])
    assert shop.table() == expected | ({} if merge is DELETING else {2001: None})


@pytest.mark.parametrize("merge", [UPSERT, DEDUPE], ids=["upsert", "dedupe"])
def test_a_known_key_that_no_sample_shows_is_merged_all_the_same(keyed: Maker, merge: Merge) -> None:
    shop = keyed(merge)
    shop.write(0, [(1001, "old")])
    shop.write(1, many(0, 2000, "new"))
    assert staged(shop) == 2000  # the table said no, so all of them were merged
    shop.write(2001, [(1001, "newer"), *many(2000, 4000, "new")])
    assert staged(shop) == (2000 if merge is DEDUPE else 1)  # all keys were looked up, and dedupe had nothing to stage
    last = "old" if merge is DEDUPE else "newer"
    assert shop.table() == dict(many(0, 4000, "new")) | {1001: last}


@pytest.mark.parametrize("merge", [UPSERT, DEDUPE], ids=["upsert", "dedupe"])
def test_a_span_of_more_than_is_kept_in_memory_is_merged_like_any_other(
    keyed: Maker, monkeypatch: pytest.MonkeyPatch, merge: Merge
) -> None:
    monkeypatch.setattr(merging, "HELD", 100)
    shop = keyed(merge)
    parts = [shop.rows(0, start, [(start, "own"), (7, f"at {start}")]) for start in range(0, 12, 2)]
    shop.store.write(shop.batch(0, 0, *parts))
    assert staged(shop) == 12
    assert shop.table() == dict.fromkeys(range(0, 12, 2), "own") | {7: "at 0" if merge is DEDUPE else "at 10"}


def test_keys_that_only_the_table_takes_for_the_same_are_one_row(keyed: Maker) -> None:
    shop = keyed(Merge(Mode.UPSERT, ("v",)), values=pa.float64())
    shop.write(0, [(1, math.nan), (2, 0.5), (3, math.nan)])
    shop.write(3, [(4, math.nan), (5, 0.0), (6, -0.0), (7, 7.0)])
    assert shop.sql("SELECT id FROM {} ORDER BY id") == [(2,), (4,), (6,), (7,)]


def test_a_key_that_no_table_takes_is_named_by_its_offset(keyed: Maker) -> None:
    shop = keyed(Merge(Mode.DEDUPE, ("v",)))
    with pytest.raises(Poison) as refused:
        shop.write(70, [(1, "a"), (2, "a\0b")])
    assert [offset for offset, _ in refused.value.records] == [71]
    assert shop.count() == 0


def test_a_delete_that_no_sample_shows_deletes_all_the_same(keyed: Maker) -> None:
    shop = keyed(DELETING)
    gone = range(1001, 1080, 8)  # of 2,000 keys every eighth is looked up first, and none of these
    shop.write(0, [(key, "old") for key in gone])
    shop.write(10, [(key, None if key in gone else "new") for key in range(2000)])
    assert shop.table() == {key: "new" for key in range(2000) if key not in gone}


def test_a_row_that_does_not_know_its_event_is_no_delete(keyed: Maker) -> None:
    shop = keyed(DELETING)
    for start in (0, 2):  # new to the table, and then known
        events = shop.rows(0, start, [(1, "a"), (2, f"from {start}")]).drop_columns([TOMBSTONE.name])
        marks = pa.array([None, False], pa.bool_())
        shop.store.write(shop.batch(0, start, events.append_column(TOMBSTONE.name, marks)))
    assert shop.table() == {1: "a", 2: "from 2"}


TWINS: dict[str, tuple[str | float, ...]] = {  # keys that Arrow tells apart and the table does not
    "double precision": (math.nan, math.nan, math.nan),
    "jsonb": ('{"a":1}', '{"a": 1}', '{"a":1.0}'),
}


@pytest.mark.parametrize("merge", [UPSERT, DEDUPE, DELETING], ids=["upsert", "dedupe", "deletes"])
@pytest.mark.parametrize("kind", TWINS)
def test_of_keys_that_only_the_table_takes_for_the_same_the_right_one_wins(
    keyed: Maker, kind: str, merge: Merge
) -> None:
    """Two of them could go two ways: the one straight into the table, the other to be merged before it."""
    merge = replace(merge, key=("v",))
    values = pa.float64() if kind == "double precision" else pa.string()
    shop = keyed(merge, provenance=merge.deletes, values=values)
    shop.sql(f"ALTER TABLE {{}} ALTER v TYPE {kind} USING v::text::{kind}")
    shop.settings = replace(shop.settings, columns=read_columns(shop.connection, shop.name))
    shop.store = shop.another_store()
    one, two, three = TWINS[kind]
    rows = shop.rows(0, 0, [(1, one), (2, two), (3, two), (4, three)])
    if merge.deletes:
        mark = pa.array([False, True])
        rows = shop.rows(0, 0, [(1, one), (2, two)]).drop_columns([TOMBSTONE.name]).append_column(TOMBSTONE.name, mark)
    shop.store.write(shop.batch(0, 0, rows))
    last = {Mode.UPSERT: [(4,)], Mode.DEDUPE: [(1,)]}[merge.mode]
    assert shop.sql("SELECT id FROM {}") == ([] if merge.deletes else last)
