"""Batches of a stream that keeps state, in the commits of a lake's table: the number decides, and moves with the rows.

The ledgers of both kinds, without Spark: Delta's commits have no rows here, those of the table in memory do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from contract.lake_subject import Kept, Once, TableInMemory
from fencepost.delivery import deliver
from fencepost.errors import CheckpointMismatch, Fenced, FencepostError, PositionLost, Refused, Rewound
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Span, StreamBatch, StreamStep, TopicPartition
from fencepost.sinks.auditing import Commit
from fencepost.sinks.delta import DeltaStore, DeltaTarget, reading
from fencepost.sinks.lake.commits import Carried, listed
from fencepost.sinks.lake.document import Document
from fencepost.sinks.lake.store import LakeStore

EXACTLY = Guarantee.EXACTLY_ONCE
IDLE, BUSY = TopicPartition("orders", 0), TopicPartition("orders", 1)
ELSEWHERE = TopicPartition("payments", 0)
FIRST = {IDLE: 7, BUSY: 0}
NAME = "shop"
ROWS = pa.schema([("n", pa.int64())])
Store = DeltaStore | LakeStore


class Stream:
    """A pipeline with state; each of its batches is one row, with its number, where there are rows at all."""

    def __init__(self) -> None:
        self.store = self.opened()
        self.tenure = self.store.take_over(NAME, uuid4(), FIRST, {})
        self.first = StreamBatch("", -1, "[]", 0, 0, "epoch-1")
        self.store.begin_stream(self.tenure, self.first)

    def opened(self) -> Store:
        """Another handle of the same table, which remembers nothing."""
        raise NotImplementedError

    def rows(self, number: int) -> Any:
        raise NotImplementedError

    def add(self) -> None:
        """A row of somebody else's."""
        raise NotImplementedError

    def empty(self) -> None:
        raise NotImplementedError

    def batch(self, number: int, before: StreamBatch | None = None, records: int = 0) -> Batch[Any]:
        last = before or self.store.stream(NAME) or self.first
        after = StreamBatch("query", number, f"[{number}]", number, number + 1, "epoch-1")
        start = self.store.positions(NAME)[BUSY]
        spans = {IDLE: Span(7, 7), BUSY: Span(start, start + records)}
        return Batch(spans, self.rows(number), self.tenure, StreamStep(last, after))

    def deliver(self, batch: Batch[Any], guarantee: Guarantee = EXACTLY, store: Store | None = None) -> Landed:
        return deliver(guarantee, batch, store or self.store, store or self.store)

    def there(self) -> tuple[int, int]:
        """The last batch, and where the busy partition stands, as somebody else reads them."""
        found = self.opened()
        last = found.stream(NAME)
        return last.number if last else -2, found.positions(NAME)[BUSY]

    def commits(self) -> list[Commit]:
        """What each covered, and how many rows it says that it wrote."""
        raise NotImplementedError


class InDelta(Stream):
    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "numbers")
        DeltaTable.create(self.path, ROWS)
        super().__init__()

    def opened(self) -> DeltaStore:
        return DeltaTarget(self.path).open()

    def rows(self, number: int) -> None:
        """Spark writes them, and is not here."""

    def add(self) -> None:
        write_deltalake(self.path, pa.table({"n": [1]}, schema=ROWS), mode="append")

    def empty(self) -> None:
        DeltaTable(self.path).delete()

    def commits(self) -> list[Commit]:
        store = self.opened()
        return reading.commits(store, store.held(NAME), NAME)


class InMemory(Stream):
    def __init__(self, _folder: Path) -> None:
        self.kept = Kept()
        self.carried: list[Carried] = []
        super().__init__()

    def opened(self) -> LakeStore:
        return LakeStore(Telling(self.kept, self.carried))

    def rows(self, number: int) -> Once:
        return Once(iter([number]))

    def add(self) -> None:
        self.kept.rows.append(-1)

    def empty(self) -> None:
        self.kept.rows.clear()

    def commits(self) -> list[Commit]:
        return listed(self.opened().stored(NAME), self.carried, forgotten=False)


class Telling(TableInMemory):
    """Keeps what commits say of their batches, which is no part of the document."""

    def __init__(self, kept: Kept, carried: list[Carried]) -> None:
        super().__init__(kept)
        self._carried = carried

    def commit(self, pipeline: str, before: Document | None, after: Document, rows: Any) -> None:
        super().commit(pipeline, before, after, rows)
        if after.carried is not None:
            self._carried.append(after.carried)


@pytest.fixture(params=[InDelta, InMemory], ids=["delta", "lake"])
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> Stream:
    made: type[InDelta | InMemory] = request.param
    return made(tmp_path)


def test_batches_with_and_without_records_land_once(stream: Stream) -> None:
    for number, records in enumerate((3, 0, 0, 2)):
        batch = stream.batch(number, records=records)
        assert not stream.deliver(batch).already
        assert stream.deliver(batch).already
        assert stream.deliver(batch, store=stream.opened()).already
    assert stream.there() == (3, 5)
    if isinstance(stream, InMemory):
        assert stream.kept.rows == [0, 1, 2, 3]
    covered = [(one.partition.partition, one.span.start, one.span.end) for one in stream.commits()]
    assert covered == [(1, 0, 3), (0, 7, 7), (0, 7, 7), (1, 3, 5)]


def test_a_replaced_owner_lands_no_batch_without_records_either(stream: Stream) -> None:
    stream.deliver(stream.batch(0, records=3))
    late = stream.batch(1)
    stream.opened().take_over(NAME, uuid4(), FIRST, {})
    with pytest.raises(Fenced) as fenced:
        stream.deliver(late)
    assert not isinstance(fenced.value, Rewound)
    assert stream.there() == (0, 3)


def test_an_owner_who_is_replaced_after_he_looked_writes_nothing(stream: Stream) -> None:
    with pytest.raises(Fenced):
        _replaced_meanwhile(stream, stream.batch(0))
    assert stream.there() == (-1, 0)


def _replaced_meanwhile(stream: Stream, late: Batch[Any]) -> None:
    with stream.store.transaction(late) as transaction:
        transaction.write(late)
        transaction.advance(late)
        stream.opened().take_over(NAME, uuid4(), FIRST, {})


def test_a_term_that_is_renewed_goes_on_after_the_last_batch(stream: Stream) -> None:
    stream.deliver(stream.batch(0, records=3))
    stream.tenure = stream.store.renew(stream.tenure, uuid4())
    assert stream.there() == (0, 3)
    stream.deliver(stream.batch(1))
    assert stream.there() == (1, 3)


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
    for number, records in enumerate((3, 0, 0)):
        stream.deliver(stream.batch(number, records=records))
    made, error = WRONG[wrong]
    with pytest.raises(error):
        stream.deliver(made(stream))
    assert stream.there() == (2, 3)


@pytest.mark.parametrize("guarantee", [Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE])
def test_the_number_moves_under_the_other_guarantees_too(stream: Stream, guarantee: Guarantee) -> None:
    for number, records in enumerate((3, 0, 2)):
        batch = stream.batch(number, records=records)
        assert not stream.deliver(batch, guarantee).already
        assert stream.deliver(batch, guarantee).already
        assert stream.there()[0] == number


def test_a_batch_whose_rows_are_refused_after_the_positions_moved_is_put_back_with_its_number(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.deliver(stream.batch(0, records=3), Guarantee.AT_MOST_ONCE)

    def refuses(_batch: Batch[Any]) -> Landed:
        raise Refused("no")

    monkeypatch.setattr(stream.store, "write", refuses)
    for records in (2, 0):
        with pytest.raises(Refused):
            stream.deliver(stream.batch(1, records=records), Guarantee.AT_MOST_ONCE)
        assert stream.there() == (0, 3)


def test_a_stream_begins_once_and_again_only_over_an_empty_table(stream: Stream) -> None:
    stream.store.begin_stream(stream.tenure, stream.first)
    stream.deliver(stream.batch(0))
    with pytest.raises(CheckpointMismatch):
        stream.store.begin_stream(stream.tenure, stream.first)
    stream.deliver(stream.batch(1, records=2))
    stream.add()
    with pytest.raises(PositionLost, match="holds rows"):
        stream.store.begin_anew(NAME, FIRST, {}, {})
    assert stream.there() == (1, 2)
    taken_out = stream.store.take_over(NAME, uuid4(), {ELSEWHERE: 0}, {})
    stream.store.advance(Batch({ELSEWHERE: Span(0, 3)}, None, taken_out))
    stream.empty()
    stream.store.begin_anew(NAME, {BUSY: 1}, {}, {IDLE: 7})
    assert stream.there() == (-2, 1)
    assert {held.moved_at for held in stream.opened().stored(NAME).values()} == {None}
    with pytest.raises(Fenced):
        stream.deliver(stream.batch(0))


def test_a_stream_begins_where_its_owner_stands(stream: Stream) -> None:
    with pytest.raises(Fenced):
        stream.store.begin_stream(replace(stream.tenure, token=uuid4()), stream.first)
    stream.store.advance(Batch({BUSY: Span(0, 2)}, None, stream.tenure))
    with pytest.raises(FencepostError):
        stream.store.begin_stream(stream.tenure, stream.first)


def test_a_state_does_not_begin_over_rows(stream: Stream) -> None:
    stream.empty()
    stream.store.require_no_rows(NAME)
    stream.add()
    with pytest.raises(PositionLost, match="holds rows"):
        stream.store.require_no_rows(NAME)


def test_batches_of_a_time_without_state_leave_the_last_batch_of_the_stream_alone(stream: Stream) -> None:
    """They move positions, which does not fit it any more: whoever comes with the state is told."""
    stream.deliver(stream.batch(0, records=2))
    stream.store.advance(Batch({BUSY: Span(2, 4)}, None, stream.tenure))
    assert stream.there() == (0, 4)


# -- what commits say of their batches


def test_what_a_batch_wrote_is_said_of_that_batch(stream: Stream) -> None:
    """At most once the rows come after the commit that moves: it knows nothing of them, nor of those before."""
    for number, guarantee in enumerate((EXACTLY, Guarantee.AT_LEAST_ONCE, *[Guarantee.AT_MOST_ONCE] * 3)):
        stream.deliver(stream.batch(number, records=1), guarantee)
    rows = 1 if isinstance(stream, InMemory) else 0
    assert [one.rows for one in stream.commits()] == [rows, rows, None, None, None]
