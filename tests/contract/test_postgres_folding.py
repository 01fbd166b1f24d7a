"""Old spans are folded together, and everything that is read from them says the same as before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from contract.keyed import PARTITIONS, Keyed, Maker
from fencepost.audit.spans import LandedSpan, breaks
from fencepost.guarantee import Guarantee
from fencepost.model import Span, TopicPartition
from fencepost.sinks.postgres import folding
from fencepost.sinks.postgres.committed import committed
from fencepost.sinks.postgres.folding import SpanFolder
from fencepost.sinks.postgres.reading import activity, spans_over, stored_spans

AT = PARTITIONS[0]
AT_ONCE = timedelta(0)


@pytest.fixture
def shop(keyed: Maker) -> Keyed:
    return keyed(None)


class Spans:
    """A pipeline's spans as they are stored."""

    def __init__(self, shop: Keyed) -> None:
        self.shop = shop
        self.schema = shop.settings.schema

    def add(self, span: Span, owner: UUID, rows: int | None = 1, dead: int = 0, days: float = 30) -> None:
        table = sql.Identifier(self.schema, "spans")
        insert = "INSERT INTO {} (pipeline, topic, partition, start_offset, end_offset, owner, rows, dead, landed_at) "
        self.shop.connection.execute(
            sql.SQL(insert + "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, now() - %s)").format(table),
            (self.shop.name, *AT, span.start, span.end, owner, rows, dead, timedelta(days=days)),
        )

    def there(self) -> list[tuple[Any, ...]]:
        query = "SELECT start_offset, end_offset, rows, dead FROM {} ORDER BY id"
        return self.shop.connection.execute(sql.SQL(query).format(sql.Identifier(self.schema, "spans"))).fetchall()

    def fold(self, retention: timedelta = folding.RETENTION) -> int:
        """Until nothing is left to fold."""
        folder, reached, fewer = SpanFolder(self.schema, self.shop.name, retention), -1, 0
        while (step := folder.step(self.shop.connection, AT)) or folder.reached(AT) > reached:
            fewer, reached = fewer + step, folder.reached(AT)
        return fewer

    def says(self, owners: list[UUID], end: int, most: int = 1_000_000) -> tuple[Any, ...]:
        """All that status, receipts, the audit and a run's summary read."""
        at = (self.shop.connection, self.schema, self.shop.name)
        stored = stored_spans(*at, most)
        found = [
            LandedSpan(TopicPartition(one.topic, one.partition), Span(one.start_offset, one.end_offset), one.rows)
            for one in stored
        ]
        known = [{one.rows is None for one in spans_over(*at, AT, offset)} for offset in range(end + 5)]
        did = activity(*at)
        landed = [committed(*at, [owner], {AT: 0}) for owner in owners]
        return list(breaks(found, {AT: end})), known, (did.rows, did.dead, did.last_batch), landed


def test_spans_that_follow_each_other_become_one_and_the_young_ones_stay(shop: Keyed) -> None:
    spans, owner = Spans(shop), uuid4()
    for start in range(0, 50, 10):
        spans.add(Span(start, start + 10), owner, rows=8, dead=1, days=30)
    spans.add(Span(50, 60), owner, days=1)
    assert spans.fold() == 4
    assert spans.there() == [(0, 50, 40, 5), (50, 60, 1, 0)]
    assert spans.fold(timedelta(hours=1)) == 1
    assert spans.there() == [(0, 60, 41, 5)]
    query = sql.SQL("SELECT date_trunc('hour', now() - since), date_trunc('hour', now() - landed_at) FROM {}")
    first, last = shop.connection.execute(query.format(sql.Identifier(spans.schema, "spans"))).fetchone() or ((), ())
    assert (first, last) == (timedelta(days=30), timedelta(days=1))


def test_gaps_overlaps_owners_and_rows_that_nobody_counted_stay_apart(shop: Keyed) -> None:
    spans, owner, other = Spans(shop), uuid4(), uuid4()
    spans.add(Span(0, 10), owner)
    spans.add(Span(10, 20), owner, rows=None)
    spans.add(Span(20, 30), owner, rows=None)
    spans.add(Span(31, 40), owner)
    spans.add(Span(0, 10), other)
    spans.add(Span(10, 20), other)
    assert spans.fold() == 2
    assert spans.there() == [(0, 10, 1, 0), (10, 30, None, 0), (31, 40, 1, 0), (0, 20, 2, 0)]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happened_everything_that_is_read_stays_the_same(
    shop: Keyed, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "WINDOW", 7)
    chosen, spans, owners, position = random.Random(seed), Spans(shop), [uuid4()], 0
    for _ in range(60):
        if chosen.random() < 0.1:  # taken over, and perhaps put elsewhere before that
            owners.append(uuid4())
            position = chosen.choice([position, position, max(position - 15, 0), position + 4])
        size = chosen.randint(1, 6)
        spans.add(
            Span(position, position + size),
            owners[-1],
            rows=chosen.choice([None, 0, size, size]) if chosen.random() < 0.3 else size,
            dead=chosen.randint(0, 1),
        )
        position += size
    before = spans.says(owners, position)
    assert spans.says(owners, position, most=20)[0] == before[0]  # read as few, breaks are seen all the same
    assert spans.fold() > 20
    assert spans.says(owners, position) == before
    while spans.fold():  # what lay across the edge of a step
        pass
    assert spans.says(owners, position) == before


def test_of_two_that_fold_at_once_one_leaves_it(shop: Keyed, stack: Any) -> None:
    spans, owner = Spans(shop), uuid4()
    for start in range(3):
        spans.add(Span(start, start + 1), owner)
    with psycopg.connect(stack.dsn) as other:
        place = f"fencepost.fold.{spans.schema}.{shop.name}"
        other.execute("SELECT pg_advisory_xact_lock(hashtext(%s), hashtext(%s))", (place, str(AT)))
        assert spans.fold() == 0
    assert spans.fold() == 2


@contextmanager
def at_every_batch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(folding, "EVERY", 0.0)
    yield


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_a_store_folds_by_the_way(keyed: Maker, guarantee: Guarantee, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = keyed(None)
    shop.store._folder = SpanFolder(shop.settings.schema, shop.name, AT_ONCE)
    with at_every_batch(monkeypatch):
        for start in range(5):
            shop.deliver(start, [(start, "a")], guarantee)
    rows = None if guarantee is Guarantee.AT_MOST_ONCE else 5
    assert Spans(shop).there() == [(0, 5, rows, 0)]
    assert shop.count() == 5


def test_what_keeps_it_from_folding_keeps_no_batch_from_landing(
    keyed: Maker, stack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = keyed(None)
    shop.store._folder = SpanFolder(shop.settings.schema, shop.name, AT_ONCE)
    spans = Spans(shop)
    with at_every_batch(monkeypatch), psycopg.connect(stack.dsn) as other:
        shop.deliver(0, [(0, "a")], Guarantee.EXACTLY_ONCE)
        other.execute(f"SELECT 1 FROM {spans.schema}.spans FOR UPDATE")
        shop.deliver(1, [(1, "b")], Guarantee.EXACTLY_ONCE)
        assert shop.count() == 2
        assert len(spans.there()) == 2
    shop.connection.execute(sql.SQL("ALTER TABLE {} DROP since").format(sql.Identifier(spans.schema, "spans")))
    with at_every_batch(monkeypatch):
        shop.deliver(2, [(2, "c")], Guarantee.EXACTLY_ONCE)
    assert shop.count() == 3
