"""Constraints that a table checks only at COMMIT: a row that breaks one is found before, and named."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from contract.keyed import DEDUPE, PARTITIONS, UPSERT, Event, Keyed, Maker
from fencepost.delivery import deliver
from fencepost.errors import Poison, Refused
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Merge, Span
from fencepost.sinks.postgres import PostgresStore, binary_copy

EVENTS: list[Event] = [(number, str(number)) for number in range(8)]
MODES = pytest.mark.parametrize("merge", [None, UPSERT, DEDUPE], ids=["append", "upsert", "dedupe"])
GUARANTEES = pytest.mark.parametrize(
    "guarantee",
    [pytest.param(word, marks=[] if word is Guarantee.EXACTLY_ONCE else pytest.mark.proof) for word in Guarantee],
)


def _twice(shop: Keyed) -> None:
    """No two rows of one value."""
    shop.sql("ALTER TABLE {} ADD UNIQUE (v) DEFERRABLE INITIALLY DEFERRED")


def _unknown(shop: Keyed) -> None:
    """Only values of another table."""
    shop.connection.execute(f"CREATE TABLE {shop.name}_own.known (v text PRIMARY KEY)")
    shop.connection.execute(f"INSERT INTO {shop.name}_own.known VALUES ('0'), ('1'), ('2'), ('4'), ('5'), ('6'), ('7')")
    shop.sql(f"ALTER TABLE {{}} ADD FOREIGN KEY (v) REFERENCES {shop.name}_own.known DEFERRABLE INITIALLY DEFERRED")


def _trigger(shop: Keyed, state: str) -> None:
    shop.connection.execute(
        f"CREATE FUNCTION {shop.name}_own.check_row() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF NEW.v = '3' THEN RAISE EXCEPTION 'no three' "
        f"USING ERRCODE = '{state}'; END IF; RETURN NULL; END $$"
    )
    shop.sql(
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON {} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        f"EXECUTE FUNCTION {shop.name}_own.check_row()"
    )


def _late_check(shop: Keyed) -> None:
    _trigger(shop, "23514")


KINDS: dict[str, Callable[[Keyed], None]] = {"unique": _twice, "foreign key": _unknown, "trigger": _late_check}


def _carry(shop: Keyed, guarantee: Guarantee, rows: pa.RecordBatch) -> None:
    batch: Batch[Any] = Batch({PARTITIONS[0]: Span(0, len(EVENTS))}, iter([rows]), shop.tenure)
    with closing(PostgresStore(shop.settings)) as store:
        deliver(guarantee, batch, store, store)


@pytest.mark.parametrize("kind", KINDS)
@MODES
@GUARANTEES
def test_a_row_that_breaks_a_deferred_constraint_is_named_and_the_others_land_without_it(
    keyed: Maker, merge: Merge | None, guarantee: Guarantee, kind: str
) -> None:
    shop = keyed(merge)
    KINDS[kind](shop)
    if kind == "unique":
        shop.sql("INSERT INTO {} (id, v) VALUES (100, '3')")
    rows = shop.rows(0, 0, EVENTS)
    with pytest.raises(Poison) as poison:
        _carry(shop, guarantee, rows)
    assert [offset for offset, _ in poison.value.records] == [3]
    assert shop.store.positions(shop.name)[PARTITIONS[0]] == 0
    _carry(shop, guarantee, rows.filter(pc.not_equal(rows.column("_offset"), 3)))
    assert [id_ for (id_,) in shop.sql("SELECT id FROM {} WHERE id < 100 ORDER BY 1")] == [0, 1, 2, 4, 5, 6, 7]
    assert shop.store.positions(shop.name)[PARTITIONS[0]] == len(EVENTS)


@MODES
def test_a_deferred_trigger_that_says_no_stops_the_run_and_blames_no_record(keyed: Maker, merge: Merge | None) -> None:
    shop = keyed(merge)
    _trigger(shop, "P0001")
    with pytest.raises(Refused, match="no three") as refused:
        _carry(shop, Guarantee.EXACTLY_ONCE, shop.rows(0, 0, EVENTS))
    assert not refused.value.about_values
    assert (shop.count(), shop.store.positions(shop.name)[PARTITIONS[0]]) == (0, 0)


SHELF = """
CREATE TABLE {own}.shelf (n int PRIMARY KEY);
CREATE TABLE {own}.box (n bigint REFERENCES {own}.shelf DEFERRABLE INITIALLY DEFERRED);
CREATE FUNCTION {own}.put() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO {own}.box VALUES (NEW.id); INSERT INTO {own}.shelf VALUES (NEW.id); RETURN NEW;
END $$;
CREATE TRIGGER put BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {own}.put();
"""


@MODES
def test_triggers_that_rely_on_deferred_constraints_work_as_ever_in_every_copy_of_a_span(
    keyed: Maker, merge: Merge | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The box comes before its shelf, in a table that nobody told us of; each part of the rows is a COPY."""
    monkeypatch.setattr(binary_copy, "ANSWER_EVERY", 1)
    shop = keyed(merge)
    shop.connection.execute(SHELF.format(own=f"{shop.name}_own", table=shop.name))
    batch = shop.batch(0, 0, shop.rows(0, 0, EVENTS[:4]), shop.rows(0, 4, EVENTS[4:]))
    deliver(Guarantee.EXACTLY_ONCE, batch, shop.store, shop.store)
    for table in (shop.name, f"{shop.name}_own.box", f"{shop.name}_own.shelf"):
        assert shop.connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (len(EVENTS),)


def test_a_parent_may_come_after_its_child_in_the_same_rows(keyed: Maker) -> None:
    shop = keyed(None)
    shop.sql("ALTER TABLE {} ADD UNIQUE (id)")
    shop.sql(f"ALTER TABLE {{}} ADD FOREIGN KEY (at) REFERENCES {shop.name} (id) DEFERRABLE INITIALLY DEFERRED")
    above = [7, 7, 7, 7, 7, 7, 7, 7]
    _carry(shop, Guarantee.EXACTLY_ONCE, shop.rows(0, 0, EVENTS, above))
    assert shop.count() == len(EVENTS)
