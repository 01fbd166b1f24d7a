"""After a failover to a standby that was behind PostgreSQL has forgotten the last commits: rows, positions, owners."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from contract.keyed import PARTITIONS, Keyed, Maker
from fencepost.errors import Fenced, Rewound
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Span, Tenure

EXACTLY_ONCE = Guarantee.EXACTLY_ONCE
TABLES = ("pipelines", "positions", "spans")


@pytest.fixture
def shop(keyed: Maker) -> Keyed:
    return keyed(None)


@contextmanager
def forgotten(shop: Keyed) -> Iterator[None]:
    """What is done in the block is gone after it, in the ledger and in the table, as it is on a standby behind."""
    kept = [sql.Identifier(shop.settings.schema, table) for table in TABLES] + [sql.Identifier(shop.name)]
    run = shop.connection.execute
    for number, table in enumerate(kept):
        run(sql.SQL("CREATE TEMPORARY TABLE {} AS SELECT * FROM {}").format(sql.Identifier(f"kept_{number}"), table))
    yield
    for table in reversed(kept):
        run(sql.SQL("DELETE FROM {}").format(table))
    for number, table in enumerate(kept):
        copy = sql.SQL("INSERT INTO {} OVERRIDING SYSTEM VALUE SELECT * FROM {}")
        run(copy.format(table, sql.Identifier(f"kept_{number}")))
        run(sql.SQL("DROP TABLE {}").format(sql.Identifier(f"kept_{number}")))


def renewed(shop: Keyed) -> Tenure:
    shop.tenure = shop.store.renew(shop.tenure, uuid4())
    return shop.tenure


def owners(shop: Keyed) -> set[Any]:
    ledger = sql.Identifier(shop.settings.schema, "positions")
    return {tuple(row) for row in shop.connection.execute(sql.SQL("SELECT owner, epoch FROM {}").format(ledger))}


def test_an_earlier_token_of_ours_that_comes_back_is_ours(shop: Keyed) -> None:
    shop.deliver(0, [(1, "a")], EXACTLY_ONCE)
    with forgotten(shop):
        renewed(shop)
        shop.deliver(1, [(2, "b")], EXACTLY_ONCE)
    with pytest.raises(Rewound):
        shop.deliver(2, [(3, "c")], EXACTLY_ONCE)
    assert renewed(shop).positions[PARTITIONS[0]] == 1
    shop.deliver(1, [(2, "b")], EXACTLY_ONCE)
    assert shop.table() == {1: "a", 2: "b"}


def test_an_earlier_token_of_ours_is_ours_after_many_renewals_too(shop: Keyed) -> None:
    with forgotten(shop):
        for _ in range(5):
            renewed(shop)
    epoch = shop.tenure.epoch
    assert renewed(shop).epoch == epoch
    shop.deliver(0, [(1, "a")], EXACTLY_ONCE)


def test_a_takeover_that_was_forgotten_is_done_again_and_the_one_before_is_fenced(shop: Keyed) -> None:
    shop.deliver(0, [(1, "a")], EXACTLY_ONCE)
    before = shop.tenure
    with forgotten(shop):
        shop.successor()
        shop.deliver(1, [(2, "b")], EXACTLY_ONCE)
    with pytest.raises(Rewound) as back:
        shop.deliver(2, [(3, "c")], EXACTLY_ONCE)
    assert back.value.takeover_lost
    assert renewed(shop).epoch > before.epoch
    with pytest.raises(Fenced) as fenced:  # it may have been alive, and have owned it again for a while
        shop.store.done(Batch({PARTITIONS[0]: Span(1, 2)}, iter(()), before))
    assert not isinstance(fenced.value, Rewound)
    shop.deliver(1, [(2, "b")], EXACTLY_ONCE)
    assert shop.table() == {1: "a", 2: "b"}


def test_of_two_whose_takeovers_were_forgotten_one_goes_on_and_the_other_is_fenced(shop: Keyed) -> None:
    """They do not take the positions from each other for ever."""
    with forgotten(shop):
        one, other = shop.successor(), shop.successor()
    assert one.epoch < other.epoch
    for first, second in ((one, other), (other, one)):
        with forgotten(shop):
            went_on = shop.store.renew(first, uuid4())
            if second.epoch > went_on.epoch:  # of the two the newer one
                newest = shop.store.renew(second, uuid4())
                with pytest.raises(Fenced):
                    shop.store.renew(went_on, uuid4())
                assert owners(shop) == {(newest.token, newest.epoch)}
            else:
                with pytest.raises(Fenced):
                    shop.store.renew(second, uuid4())
                assert owners(shop) == {(went_on.token, went_on.epoch)}


def test_who_took_over_after_a_failover_is_not_taken_for_what_was_forgotten(shop: Keyed) -> None:
    before = shop.tenure
    with forgotten(shop):
        mine = shop.successor()
    rival = shop.store.take_over(shop.name, uuid4(), dict.fromkeys(PARTITIONS, 0), {})
    assert rival.epoch == mine.epoch == before.epoch + 1  # the same number, another owner
    with pytest.raises(Fenced) as fenced:
        shop.store.renew(mine, uuid4())
    assert not isinstance(fenced.value, Rewound)


def test_positions_of_which_nothing_is_left_are_not_in_the_renewed_tenure(shop: Keyed) -> None:
    shop.connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(shop.settings.schema, "positions")))
    assert renewed(shop).positions == {}


def test_the_epoch_counts_owners(shop: Keyed) -> None:
    first = shop.tenure.epoch
    assert renewed(shop).epoch == first  # the same owner
    run = uuid4()
    for partition in PARTITIONS:  # as a member takes them, one after the other
        assert shop.store.take_over(shop.name, run, {partition: 0}, {}).epoch == first + 1
    shop.store.begin(shop.name, run, dict.fromkeys(PARTITIONS, 0), {})
    assert shop.store.take_over(shop.name, uuid4(), {}, {}).epoch == first + 1  # of nothing
    assert shop.successor().epoch == first + 2
    with psycopg.connect(shop.dsn) as connection:
        ledger = sql.Identifier(shop.settings.schema, "pipelines")
        assert connection.execute(sql.SQL("SELECT epoch FROM {}").format(ledger)).fetchone() == (first + 2,)
