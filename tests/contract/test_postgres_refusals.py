"""A unique index refuses rows that another attempt, or another owner, has brought meanwhile: the ledger says which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from contract.keyed import PARTITIONS, Event, Keyed, Maker
from fencepost.delivery import Observer, deliver, exactly_once, nobody
from fencepost.errors import Fenced, Poison, Unknown
from fencepost.guarantee import Guarantee
from fencepost.lab.proxy import Action, Direction, Protocol, Proxy, Rule, Statement
from fencepost.local import Stack
from fencepost.machine import process
from fencepost.model import Batch, Landed, Step
from fencepost.sinks.postgres import PostgresStore
from fencepost.testing.batches import at

EXACTLY_ONCE = Guarantee.EXACTLY_ONCE
ALREADY = Landed(rows=0, already=True)
EVENTS: list[Event] = [(number, str(number)) for number in range(3)]
COMMIT = Statement("COMMIT")
PATIENCE = 20.0  # seconds, for what takes a fraction of one


@pytest.fixture
def shop(keyed: Maker) -> Keyed:
    shop = keyed(None)
    shop.sql("ALTER TABLE {} ADD UNIQUE (id)")
    return shop


@pytest.fixture
def proxy(stack: Stack) -> Iterator[Proxy]:
    there = conninfo_to_dict(stack.dsn)
    with Proxy() as proxy:
        proxy.listen("db", target=(str(there["host"]), int(str(there["port"]))), protocol=Protocol.POSTGRES)
        yield proxy


def _batch(shop: Keyed) -> Batch[Any]:
    return shop.batch(0, 0, shop.rows(0, 0, EVENTS))


def _carry(
    shop: Keyed, guarantee: Guarantee = EXACTLY_ONCE, see: Observer = nobody, line: Proxy | None = None
) -> Landed:
    """One attempt at the events, by a process of its own."""
    dsn = make_conninfo(shop.dsn, port=line.ports()["db"]) if line else shop.dsn
    with closing(PostgresStore(replace(shop.settings, dsn=dsn, guarantee=guarantee.value))) as store:
        return deliver(guarantee, _batch(shop), store, store, see)


def _carry_blindly(shop: Keyed, see: Observer) -> Landed:
    """The same without a look at the position, before and after."""
    with closing(PostgresStore(shop.settings)) as store:
        see(Step.STARTED, _batch(shop))
        return exactly_once(_batch(shop), store, nobody)


def _landed(shop: Keyed) -> tuple[int, int]:
    return shop.count(), shop.store.positions(shop.name)[PARTITIONS[0]]


def test_a_commit_whose_answer_was_lost_has_landed_and_so_says_whoever_repeats_it(shop: Keyed, proxy: Proxy) -> None:
    rule = proxy.add(Rule(action=Action.RESET, direction=Direction.RESPONSE, request=COMMIT, count=1))
    assert _carry(shop, line=proxy) == ALREADY
    assert proxy.witness(rule).hits == 1
    assert _carry(shop) == ALREADY
    assert _landed(shop) == (3, 3)


def _late(shop: Keyed, proxy: Proxy) -> Callable[[], None]:
    """An attempt whose COMMIT is on its way; what it returns lets that arrive."""
    rule = proxy.add(Rule(action=Action.HOLD_DETACH, request=COMMIT, count=1))
    with pytest.raises(Unknown):
        _carry(shop, line=proxy)
    assert _landed(shop) == (0, 0)

    def arrive() -> None:
        proxy.release(rule)
        assert process.until(lambda: _landed(shop) == (3, 3), PATIENCE)

    return arrive


def test_a_repeated_attempt_whose_first_commit_arrives_before_its_rows_says_already(shop: Keyed, proxy: Proxy) -> None:
    assert _carry(shop, see=at(Step.STARTED, _late(shop, proxy))) == ALREADY
    assert _landed(shop) == (3, 3)


def test_control_without_a_second_look_good_records_are_called_bad(shop: Keyed, proxy: Proxy) -> None:
    with pytest.raises(Poison, match="duplicate key"):
        _carry_blindly(shop, at(Step.STARTED, _late(shop, proxy)))


@pytest.mark.parametrize("guarantee", [Guarantee.AT_LEAST_ONCE, EXACTLY_ONCE])
def test_a_replaced_member_whose_rows_collide_with_its_successors_is_fenced(shop: Keyed, guarantee: Guarantee) -> None:
    old = shop.tenure

    def succeed() -> None:
        shop.successor()
        assert _carry(shop, guarantee) == Landed(rows=3)
        shop.tenure = old

    with pytest.raises(Fenced):
        _carry(shop, guarantee, at(Step.STARTED, succeed))
    assert _landed(shop) == (3, 3)
