"""A database that cannot take rows for now: nothing of the batch is there, and the run may try again."""

from __future__ import annotations

from itertools import product

import pytest

from contract.keyed import DEDUPE, PARTITIONS, UPSERT, Event, Maker
from fencepost.errors import Unreachable
from fencepost.guarantee import Guarantee
from fencepost.model import Landed, Merge
from support.gate_cases import in_the_gate

EVENTS: list[Event] = [(number, str(number)) for number in range(6)]
MODES = pytest.mark.parametrize("merge", [None, UPSERT, DEDUPE], ids=["append", "upsert", "dedupe"])
STATES = {"53100": "make room on the disk", "53300": "max_connections", "25006": "connect to the primary"}


@MODES
def test_a_session_that_may_only_read_for_a_while_is_waited_for(keyed: Maker, merge: Merge | None) -> None:
    """As behind a failover, or where somebody sets it for a repair."""
    shop = keyed(merge)
    shop.store.connection().execute("SET default_transaction_read_only = on")
    with pytest.raises(Unreachable, match="read-only transaction") as trouble:
        shop.deliver(0, EVENTS, Guarantee.EXACTLY_ONCE)
    assert "target_session_attrs=read-write" in trouble.value.remedy
    shop.store.connection().execute("SET default_transaction_read_only = off")
    assert shop.deliver(0, EVENTS, Guarantee.EXACTLY_ONCE) == Landed(rows=6)


@pytest.mark.parametrize(
    ("guarantee", "state"),
    in_the_gate(product(Guarantee, STATES), *zip(Guarantee, STATES, strict=True)),  # each once
)
def test_what_passes_by_itself_is_waited_for_and_nothing_is_lost(
    keyed: Maker, guarantee: Guarantee, state: str
) -> None:
    shop = keyed(None)
    shop.connection.execute(
        f"CREATE FUNCTION {shop.name}_own.trouble() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '{state}'; END $$"
    )
    shop.sql(f"CREATE TRIGGER trouble BEFORE INSERT ON {{}} FOR EACH ROW EXECUTE FUNCTION {shop.name}_own.trouble()")
    with pytest.raises(Unreachable, match="not now") as trouble:
        shop.deliver(0, EVENTS, guarantee)
    assert STATES[state] in trouble.value.remedy
    assert (shop.count(), shop.store.positions(shop.name)[PARTITIONS[0]]) == (0, 0)
    shop.sql("DROP TRIGGER trouble ON {}")
    assert shop.deliver(0, EVENTS, guarantee) == Landed(rows=6)
