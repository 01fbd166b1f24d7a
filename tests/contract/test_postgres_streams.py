"""Batches of a stream that keeps state, in the ledger: the number decides, and moves with rows and positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from psycopg import sql

from fencepost.delivery import deliver
from fencepost.errors import CheckpointMismatch, Fenced, FencepostError, PositionLost, Refused, Rewound
from fencepost.guarantee import Guarantee
from fencepost.local import Stack
from fencepost.model import Batch, Landed, Span, StreamBatch, StreamStep, Tenure, TopicPartition
from fencepost.sinks.postgres import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.columns import Column
from fencepost.sinks.postgres.connection import Connection

EXACTLY = Guarantee.EXACTLY_ONCE
IDLE, BUSY = TopicPartition("orders", 0), TopicPartition("orders", 1)
FIRST = {IDLE: 7, BUSY: 0}


class Stream:
    """A pipeline with state; each of its batches is one row, with its number."""

    def __init__(self, connection: Connection, dsn: str) -> None:
        self.connection, self.name = connection, f"stream_{uuid4().hex[:12]}"
        self.schema = f"{self.name}_own"
        connection.execute(f"CREATE TABLE {self.name} (n bigint)")
        columns = (Column("n", "bigint"),)
        self.settings = PostgresSettings(dsn, self.name, self.name, columns, self.schema, streams=True)
        self.store = PostgresStore(self.settings, write=self.write)
        self.tenure = self.store.take_over(self.name, uuid4(), FIRST, {})
        self.first = StreamBatch("", -1, "[]", 0, 0, "epoch-1")
        self.store.begin_stream(self.tenure, self.first)
        self.refuses = False

    def write(self, connection: Connection, batch: Batch[Any]) -> Landed:
        if self.refuses:
            raise Refused("no")
        assert batch.step is not None
        connection.execute(f"INSERT INTO {self.name} VALUES (%s)", (batch.step.after.number,))
        return Landed(1)

    def batch(self, number: int, before: StreamBatch | None = None, records: int = 0) -> Batch[Any]:
        last = before or self.store.stream(self.name) or self.first
        after = StreamBatch("query", number, f"[{number}]", number, number + 1, "epoch-1")
        start = self.store.positions(self.name)[BUSY]
        spans = {IDLE: Span(7, 7), BUSY: Span(start, start + records)}
        return Batch(spans, None, self.tenure, StreamStep(last, after))

    def deliver(self, batch: Batch[Any], guarantee: Guarantee = EXACTLY) -> Landed:
        return deliver(guarantee, batch, self.store, self.store)

    def there(self) -> tuple[list[int], int, int]:
        """Rows, the last batch, and where the busy partition stands."""
        rows = [n for (n,) in self.connection.execute(f"SELECT n FROM {self.name} ORDER BY n").fetchall()]
        last = self.store.stream(self.name)
        return rows, last.number if last else -2, self.store.positions(self.name)[BUSY]

    def close(self) -> None:
        self.store.close()
        self.connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(self.name)))
        self.connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(self.schema)))


@pytest.fixture
def stream(stack: Stack, connection: Connection) -> Iterator[Stream]:
    with closing(Stream(connection, stack.dsn)) as stream:
        yield stream


def test_batches_with_and_without_records_land_once(stream: Stream) -> None:
    for number, records in enumerate((3, 0, 0, 2)):
        batch = stream.batch(number, records=records)
        assert stream.deliver(batch) == Landed(1)
        assert stream.deliver(batch) == Landed(0, already=True)
    assert stream.there() == ([0, 1, 2, 3], 3, 5)
    spans = "SELECT partition, start_offset, end_offset, rows FROM {} ORDER BY id"
    noted = stream.connection.execute(sql.SQL(spans).format(sql.Identifier(stream.schema, "spans"))).fetchall()
    assert noted == [(1, 0, 3, 1), (0, 7, 7, 1), (0, 7, 7, 1), (1, 3, 5, 1)]


def test_a_replaced_owner_lands_no_batch_without_records_either(stream: Stream) -> None:
    stream.deliver(stream.batch(0, records=3))
    late = stream.batch(1)
    stream.store.take_over(stream.name, uuid4(), FIRST, {})
    with pytest.raises(Fenced) as fenced:
        stream.deliver(late)
    assert not isinstance(fenced.value, Rewound)
    assert stream.there() == ([0], 0, 3)


def test_an_owner_who_is_replaced_after_he_looked_writes_nothing(stream: Stream) -> None:
    """The compare-and-set of a batch without records holds every position, so that a takeover before it is seen."""
    with pytest.raises(Fenced):
        _replaced_meanwhile(stream, stream.batch(0))
    assert stream.there() == ([], -1, 0)


def _replaced_meanwhile(stream: Stream, late: Batch[Any]) -> None:
    with stream.store.transaction(late) as transaction:
        transaction.write(late)
        with closing(PostgresStore(stream.settings)) as other:
            other._end_writers = lambda pipeline: None  # type: ignore[method-assign]
            other.take_over(stream.name, uuid4(), FIRST, {})
        transaction.advance(late)


def following(stream: Stream, number: int, **parts: Any) -> Batch[Any]:
    """As if that batch had landed before it, in these parts another one."""
    before = StreamBatch("query", number, f"[{number}]", number, number + 1, "epoch-1")
    return stream.batch(number + 1, replace(before, **parts))


def another(stream: Stream, number: int) -> Batch[Any]:
    """Of the number of one that has landed, and with other records."""
    batch = following(stream, number - 1)
    assert batch.step is not None
    return replace(batch, step=StreamStep(batch.step.before, replace(batch.step.after, offsets="[99]")))


WRONG: dict[str, tuple[Callable[[Stream], Batch[Any]], type[FencepostError]]] = {
    "it does not follow": (lambda stream: following(stream, 4), Rewound),
    "it follows one of another stream": (lambda stream: following(stream, 2, query="other"), CheckpointMismatch),
    "it is another one of that number": (lambda stream: another(stream, 2), CheckpointMismatch),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_neither_the_last_nor_the_next_is_refused(stream: Stream, wrong: str) -> None:
    stream.deliver(stream.batch(0, records=3))
    stream.deliver(stream.batch(1))
    stream.deliver(stream.batch(2))
    made, error = WRONG[wrong]
    with pytest.raises(error):
        stream.deliver(made(stream))
    assert stream.there() == ([0, 1, 2], 2, 3)


def test_a_batch_whose_rows_are_refused_after_the_positions_moved_is_put_back_with_its_number(stream: Stream) -> None:
    stream.deliver(stream.batch(0, records=3), Guarantee.AT_MOST_ONCE)
    stream.refuses = True
    for records in (2, 0):
        with pytest.raises(Refused):
            stream.deliver(stream.batch(1, records=records), Guarantee.AT_MOST_ONCE)
        assert stream.there() == ([0], 0, 3)


def test_a_stream_begins_once_and_again_only_over_an_empty_table(stream: Stream) -> None:
    stream.store.begin_stream(stream.tenure, stream.first)
    stream.deliver(stream.batch(0))
    with pytest.raises(CheckpointMismatch):
        stream.store.begin_stream(stream.tenure, stream.first)
    with pytest.raises(PositionLost, match="holds rows"):
        stream.store.set_positions(stream.name, FIRST, {}, anew=True)
    assert stream.there() == ([0], 0, 0)
    stream.connection.execute(f"TRUNCATE {stream.name}")
    stream.store.set_positions(stream.name, FIRST, {}, anew=True)
    assert stream.there() == ([], -2, 0)


def test_a_ledger_that_is_older_gets_its_table_when_a_stream_takes_over(stream: Stream) -> None:
    stream.connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(stream.schema, "streams")))
    assert stream.store.stream(stream.name) is None
    plain = replace(stream.settings, streams=False)
    with closing(PostgresStore(plain)) as without:
        without.take_over(stream.name, uuid4(), FIRST, {})
    stream.store.close()  # whose connection it has ended
    assert stream.store.stream(stream.name) is None
    tenure = stream.store.take_over(stream.name, uuid4(), FIRST, {})
    stream.store.begin_stream(tenure, stream.first)
    assert stream.there() == ([], -1, 0)


def test_tenure_is_what_is_held(stream: Stream) -> None:
    other = Tenure(stream.name, uuid4(), 9, FIRST)
    with pytest.raises(Fenced):
        stream.store.begin_stream(other, stream.first)
