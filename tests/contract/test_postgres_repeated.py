"""At least once into a table with a unique index: what an attempt wrote that did not advance is not in the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from contract.keyed import PARTITIONS, Event, Keyed, Maker
from fencepost.delivery import Observer, deliver, nobody
from fencepost.errors import Poison, Refused, Repeated
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Span, Step
from fencepost.sinks.postgres import PostgresStore
from fencepost.sinks.postgres.moving import Staged, move
from fencepost.sinks.postgres.stage import Stage, name_for
from fencepost.testing.batches import at

AT_LEAST_ONCE = Guarantee.AT_LEAST_ONCE
EVENTS: list[Event] = [(number, str(number)) for number in range(6)]
Carry = Callable[..., Landed]  # one attempt, by a process of its own

_numbers = count(1)


class Crash(BaseException):
    """The process is gone."""


def crash() -> None:
    raise Crash


def _unique(keyed: Maker, index: str = "UNIQUE (id)", **more: Any) -> Keyed:
    shop = keyed(None, **more)
    shop.sql(f"ALTER TABLE {{}} ADD {index}")
    shop.settings = replace(shop.settings, guarantee=AT_LEAST_ONCE.value)
    return shop


def _direct(shop: Keyed, rows: pa.RecordBatch, end: int = len(EVENTS), see: Observer = nobody) -> Landed:
    with closing(PostgresStore(shop.settings)) as store:
        batch: Batch[Any] = Batch({PARTITIONS[0]: Span(0, end)}, iter([rows]), shop.tenure)
        return deliver(AT_LEAST_ONCE, batch, store, store, see)


def _staged(shop: Keyed, *tasks: pa.RecordBatch, end: int = len(EVENTS), see: Observer = nobody) -> Landed:
    """What a Spark driver and its tasks do, in one process: each task brings its rows into the stage."""
    own = shop.settings
    name = name_for(own.pipeline, uuid4(), next(_numbers))
    stage = Stage(own.schema, name, own.table, own.columns, provenance=shop.provenance)
    with closing(PostgresStore(own, write=move)) as store:
        stage.make(store.writer())
        attempts = [stage.fill(store.writer(), number, number, iter([rows])) for number, rows in enumerate(tasks)]
        staged = Staged(stage, tuple(attempts), {}, repeats=True)
        batch: Batch[Any] = Batch({PARTITIONS[0]: Span(0, end)}, staged, shop.tenure)
        return deliver(AT_LEAST_ONCE, batch, store, store, see)


def _placed(shop: Keyed) -> list[tuple[int, int]]:
    """Each row's offset and its key."""
    return [(offset, id_) for offset, id_ in shop.sql("SELECT _offset, id FROM {} ORDER BY 1, 2")]


def _position(shop: Keyed) -> int:
    return shop.store.positions(shop.name)[PARTITIONS[0]]


def _other(rows: pa.RecordBatch, name: str, values: Sequence[Any]) -> pa.RecordBatch:
    """The same rows with other values in one column."""
    at_ = rows.schema.get_field_index(name)
    return rows.set_column(at_, rows.schema.field(at_), pa.array(values, rows.schema.field(at_).type))


@pytest.mark.parametrize("index", ["UNIQUE (id)", "UNIQUE (id) DEFERRABLE INITIALLY DEFERRED"])
def test_through_a_stage_a_batch_that_was_written_and_did_not_advance_lands_once(keyed: Maker, index: str) -> None:
    shop = _unique(keyed, index)
    tasks = [shop.rows(0, 0, EVENTS[:3]), shop.rows(0, 3, EVENTS[3:])]
    with pytest.raises(Crash):
        _staged(shop, *tasks, see=at(Step.WRITTEN, crash))
    assert (shop.count(), _position(shop)) == (6, 0)
    _staged(shop, *reversed(tasks))
    assert _placed(shop) == [(number, number) for number in range(6)]
    assert _position(shop) == 6


def test_through_a_stage_rows_of_one_event_may_come_again_in_another_order(keyed: Maker) -> None:
    """Two rows of offset 0, which two tasks made: they are numbered as they lie."""
    shop = _unique(keyed)
    tasks = [shop.rows(0, 0, [(1, "a")]), shop.rows(0, 0, [(2, "b")])]
    with pytest.raises(Crash):
        _staged(shop, *tasks, end=1, see=at(Step.WRITTEN, crash))
    _staged(shop, *reversed(tasks), end=1)
    assert _placed(shop) == [(0, 1), (0, 2)]
    assert _position(shop) == 1


def test_through_a_stage_an_event_of_which_a_row_is_missing_is_not_there(keyed: Maker) -> None:
    """Its transform is another one now. What is there of it is not guessed: the record is named."""
    shop = _unique(keyed)
    with pytest.raises(Crash):
        _staged(shop, shop.rows(0, 0, [(1, "a")]), end=1, see=at(Step.WRITTEN, crash))
    two = [shop.rows(0, 0, [(1, "a")]), shop.rows(0, 0, [(2, "b")])]
    with pytest.raises(Poison, match=r"offset 0: .*duplicate key"):
        _staged(shop, *two, end=1)
    assert (_placed(shop), _position(shop)) == ([(0, 1)], 0)


def test_through_a_stage_equal_rows_of_one_event_are_counted(keyed: Maker) -> None:
    """An index that does not tell them apart by everything: two were there, three come."""
    shop = _unique(keyed, "UNIQUE (id, _n)")
    same = shop.rows(0, 0, [(1, "a")])
    with pytest.raises(Crash):
        _staged(shop, same, same, end=1, see=at(Step.WRITTEN, crash))
    with pytest.raises(Poison):
        _staged(shop, same, same, same, end=1)
    _staged(shop, same, same, end=1)
    assert _placed(shop) == [(0, 1), (0, 1)]


def test_through_a_stage_rows_without_an_event_are_never_taken_for_there(keyed: Maker) -> None:
    shop = _unique(keyed, "UNIQUE (v)")
    nowhere = shop.rows(0, 0, [(1, None)])  # the index takes it as often as it comes
    for name in ("_topic", "_partition", "_offset"):
        nowhere = _other(nowhere, name, [None])
    with pytest.raises(Crash):
        _staged(shop, nowhere, shop.rows(0, 0, EVENTS), see=at(Step.WRITTEN, crash))
    _staged(shop, nowhere, shop.rows(0, 0, EVENTS))
    assert shop.count() == 8
    assert _position(shop) == 6


@pytest.mark.parametrize("index", ["UNIQUE (id)", "UNIQUE (id) DEFERRABLE INITIALLY DEFERRED"])
@pytest.mark.parametrize("carry", [_direct, _staged])
def test_a_row_that_differs_is_a_bad_record_and_those_that_are_there_are_none(
    keyed: Maker, carry: Carry, index: str
) -> None:
    shop = _unique(keyed, index)
    shop.sql("INSERT INTO {} (id) VALUES (3)")  # somebody else's
    with pytest.raises(Crash):
        carry(shop, shop.rows(0, 0, EVENTS[:3]), end=3, see=at(Step.WRITTEN, crash))
    with pytest.raises(Refused) as refused:
        _until_nothing_is_repeated(shop, carry, shop.rows(0, 0, EVENTS))
    assert isinstance(refused.value, Poison)
    assert [offset for offset, _ in refused.value.records] == [3]


@pytest.mark.parametrize("carry", [_direct, _staged])
def test_a_bad_record_before_rows_that_are_there_is_the_only_one_that_is_named(keyed: Maker, carry: Carry) -> None:
    """The table refuses it first, and for another reason than the others."""
    shop = _unique(keyed)
    good = shop.rows(0, 0, EVENTS).slice(1)
    with pytest.raises(Crash):  # as where the bad one was put aside
        carry(shop, good, end=6, see=at(Step.WRITTEN, crash))
    shop.sql("ALTER TABLE {} ADD CHECK (v <> '0')")
    with pytest.raises(Poison) as poison:
        carry(shop, shop.rows(0, 0, EVENTS), end=6)
    assert [offset for offset, _ in poison.value.records] == [0]
    _until_nothing_is_repeated(shop, carry, good)
    assert _placed(shop) == [(number, number) for number in range(1, 6)]
    assert _position(shop) == 6


def _until_nothing_is_repeated(shop: Keyed, carry: Carry, rows: pa.RecordBatch) -> None:
    """As the engines do: again without the records that are there."""
    while True:
        try:
            carry(shop, rows, end=len(EVENTS))
            return
        except Repeated as repeated:
            there = pa.array(repeated.offsets, pa.int64())
            rows = rows.filter(pc.invert(pc.is_in(rows.column("_offset"), there)))


@pytest.mark.parametrize("carry", [_direct, _staged])
def test_rows_that_do_not_know_where_they_came_from_are_refused_with_what_to_do(keyed: Maker, carry: Carry) -> None:
    shop = _unique(keyed, provenance=False)
    rows = shop.rows(0, 0, EVENTS)
    with pytest.raises(Crash):
        carry(shop, rows, end=6, see=at(Step.WRITTEN, crash))
    with pytest.raises(Refused, match="duplicate key") as refused:
        carry(shop, rows, end=6)
    assert "mode: dedupe" in refused.value.remedy
