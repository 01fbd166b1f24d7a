"""Commits to an Iceberg table: what they leave, and answers that are lost or not true. Library and catalog are real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError

from contract.iceberg_subject import Through, made, options_in
from fencepost.delivery import deliver
from fencepost.errors import Fenced, Unknown, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.local import Stack
from fencepost.model import Batch, Landed, Span, StreamBatch, StreamStep
from fencepost.sinks.auditing import Commit
from fencepost.sinks.iceberg.kind import KIND
from fencepost.sinks.iceberg.options import IcebergOptions
from fencepost.sinks.iceberg.table import IcebergTable, IcebergTarget, branch_prefix
from fencepost.sinks.iceberg.writing import DataFiles
from fencepost.sinks.kind import SinkJob
from fencepost.sinks.lake.store import LakeStore
from fencepost.testing.batches import ORDERS, PIPELINE, owner

pytestmark = pytest.mark.usefixtures("iceberg_java")


@pytest.fixture
def options(stack: Stack, tmp_path: Path) -> IcebergOptions:
    options = options_in(stack, tmp_path)
    made(options)
    return options


class Lossy(Through):
    """Iceberg's library, whose next commit lands and is answered so; in between `after` happens."""

    def __init__(self, table: IcebergTable, answer: Callable[[Any], Exception], after: Callable[[], None]) -> None:
        super().__init__(table._library)
        self._answer, self._after, self._lost = answer, after, False

    def table(self, name: str) -> Any:
        table = self._real.table(name)
        lossy = Through(table.operations(), commit=partial(self._commit, table))
        return table if self._lost else Through(table, operations=lambda: lossy)

    def _commit(self, table: Any, base: Any, changed: Any) -> None:
        table.operations().commit(base, changed)
        self._lost = True
        self._after()
        raise self._answer(self._real.jvm)


def said_to_have_failed(jvm: Any) -> Any:
    """As JdbcClientPool does it: the UPDATE is repeated by itself, and finds nothing to change."""
    nothing = jvm.java.util.ArrayList().toArray()
    return Py4JJavaError("lost", jvm.org.apache.iceberg.exceptions.CommitFailedException("lost", nothing))


def nobody_knows(jvm: Any) -> Any:
    why = jvm.java.lang.RuntimeException("lost")
    return Py4JJavaError("lost", jvm.org.apache.iceberg.exceptions.CommitStateUnknownException(why))


def java_is_gone(_jvm: Any) -> Any:
    return Py4JNetworkError("Answer from Java side is empty")


@pytest.fixture
def store(options: IcebergOptions) -> Iterator[LakeStore]:
    with closing(IcebergTarget(options, {}).open()) as store:
        table: Any = store.table
        table.prepare = lambda _pipeline, _rows: _file(table)
        yield store


def _file(table: IcebergTable) -> DataFiles:
    """A data file of one row that nobody reads."""
    there = table._library.table("db.t")
    builder = table._library.jvm.org.apache.iceberg.DataFiles.builder(there.spec())
    path = f"{there.location()}/data/{uuid4().hex}.parquet"
    return DataFiles([builder.withPath(path).withFileSizeInBytes(10).withRecordCount(1).build()])


def _rows(options: IcebergOptions) -> str:
    with closing(IcebergTarget(options, {}).open()) as store:
        return str(store.table._library.table("db.t").currentSnapshot().summary().get("total-records"))  # type: ignore[attr-defined]


def _lose(store: LakeStore, answer: Callable[[Any], Exception], after: Callable[[], None] = lambda: None) -> Lossy:
    table: Any = store.table
    table._library = lossy = Lossy(table, answer, after)
    return lossy


def _take_over(options: IcebergOptions) -> None:
    with closing(IcebergTarget(options, {}).open()) as other:
        owner(other)


def _batch(store: LakeStore) -> Batch[Any]:
    return Batch({ORDERS: Span(0, 1)}, object(), owner(store))


@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize("answer", [said_to_have_failed, nobody_knows, java_is_gone])
def test_a_commit_that_landed_is_found_whatever_was_answered(
    store: LakeStore, options: IcebergOptions, guarantee: Guarantee, answer: Callable[[Any], Exception]
) -> None:
    batch = _batch(store)
    _lose(store, answer)
    assert deliver(guarantee, batch, store, store).rows == 1
    assert _rows(options) == "1"
    assert store.positions(PIPELINE) == {ORDERS: 1}


LAST = StreamBatch("", -1, "[]", 0, 0, "epoch-1")
NEXT = StreamBatch("query", 0, "[1]", 5, 6, "epoch-1")


def _of_stream(store: LakeStore, records: int) -> Batch[Any]:
    """With a row, whether it has records or not."""
    tenure = owner(store)
    store.begin_stream(tenure, LAST)
    return Batch({ORDERS: Span(0, records)}, object(), tenure, StreamStep(LAST, NEXT))


@pytest.mark.parametrize("records", [0, 1])
@pytest.mark.parametrize("answer", [said_to_have_failed, nobody_knows, java_is_gone])
def test_a_batch_of_a_stream_that_landed_is_found_by_its_number(
    store: LakeStore, options: IcebergOptions, answer: Callable[[Any], Exception], records: int
) -> None:
    batch = _of_stream(store, records)
    _lose(store, answer)
    assert deliver(Guarantee.EXACTLY_ONCE, batch, store, store).rows == 1
    assert deliver(Guarantee.EXACTLY_ONCE, batch, store, store).already
    assert (_rows(options), store.stream(PIPELINE), dict(store.positions(PIPELINE))) == ("1", NEXT, {ORDERS: records})
    _take_over(options)
    with pytest.raises(Fenced):
        deliver(Guarantee.EXACTLY_ONCE, batch, store, store)
    assert store.stream(PIPELINE) == NEXT


def test_a_stream_that_is_outrun_by_a_takeover_lands_no_row_without_records(
    store: LakeStore, options: IcebergOptions
) -> None:
    batch = _of_stream(store, 0)
    with pytest.raises(Fenced):
        _overtaken(store, options, batch)
    assert (_rows(options), store.stream(PIPELINE)) == ("0", LAST)


def _overtaken(store: LakeStore, options: IcebergOptions, batch: Batch[Any]) -> None:
    with store.transaction(batch) as transaction:
        transaction.write(batch)
        transaction.advance(batch)
        _take_over(options)


def test_at_most_once_rows_that_may_be_there_are_not_put_back(store: LakeStore, options: IcebergOptions) -> None:
    """The catalog says that the commit failed, and then says nothing any more."""
    batch = _batch(store)
    store.advance(batch)
    table: Any = store.table

    def silent(*_: object) -> None:
        raise Unreachable("nobody answers")

    def fall_silent() -> None:
        lossy.__dict__["table"] = table._reader.table = silent

    lossy = _lose(store, said_to_have_failed, fall_silent)
    with pytest.raises(Unknown):
        store.write(batch)
    assert _rows(options) == "1"


@pytest.mark.parametrize("answer", [said_to_have_failed, nobody_knows])
def test_rows_that_landed_before_a_takeover_are_not_written_again(
    store: LakeStore, options: IcebergOptions, answer: Callable[[Any], Exception]
) -> None:
    batch = _batch(store)
    store.advance(batch)
    _lose(store, answer, lambda: _take_over(options))
    if answer is nobody_knows:
        with pytest.raises(Unknown):
            store.write(batch)
    else:
        assert store.write(batch).rows == 1
    assert _rows(options) == "1"


def test_exactly_once_what_landed_before_a_takeover_stays_and_the_next_batch_is_fenced(
    store: LakeStore, options: IcebergOptions
) -> None:
    batch = _batch(store)
    _lose(store, said_to_have_failed, lambda: _take_over(options))
    assert deliver(Guarantee.EXACTLY_ONCE, batch, store, store).rows == 1
    assert (_rows(options), dict(store.positions(PIPELINE))) == ("1", {ORDERS: 1})
    with pytest.raises(Fenced):
        deliver(Guarantee.EXACTLY_ONCE, Batch({ORDERS: Span(1, 2)}, object(), batch.tenure), store, store)


def test_a_takeover_that_was_outrun_is_made_after_all(store: LakeStore, options: IcebergOptions) -> None:
    table: Any = store.table
    real, others = table._library.table, iter([lambda: _take_over(options)])

    def table_of(name: str) -> Any:
        found = real(name)
        transaction = found.newTransaction()
        next(others, lambda: None)()  # between what is read and what is committed
        return Through(found, newTransaction=lambda: transaction)

    table._library.table = table_of
    assert owner(store).epoch == 2


def test_branches_of_killed_runs_go_with_the_next_commit_of_their_pipeline(
    store: LakeStore, options: IcebergOptions
) -> None:
    owner(store)
    table: Any = store.table
    there = table._library.table("db.t")
    left, others = f"{branch_prefix(PIPELINE)}{uuid4().hex}", [f"{branch_prefix('another')}x", "somebody_s"]
    for name in (left, *others):
        there.manageSnapshots().createBranch(name, there.currentSnapshot().snapshotId()).commit()
    _take_over(options)
    assert sorted(table._library.table("db.t").refs().keySet()) == sorted(["main", *others])


def test_what_a_commit_covered_is_on_record_as_long_as_its_snapshot(store: LakeStore, options: IcebergOptions) -> None:
    batch = _batch(store)
    assert deliver(Guarantee.EXACTLY_ONCE, batch, store, store).rows == 1
    job = SinkJob(PIPELINE, Guarantee.EXACTLY_ONCE, options)
    (held, commits) = KIND.commits(job)
    assert (held[ORDERS].position, commits) == (1, [Commit(ORDERS, Span(0, 1), 1)])
    activity = KIND.state(job)[1]
    assert (activity.rows, activity.rows_last_minute, KIND.forgets(job)) == (1, 1, False)
    assert KIND.landed(store, PIPELINE, [batch.tenure.token], {}) == Landed(1)

    table: Any = store.table
    there = table._library.table("db.t")
    there.newFastAppend().commit()  # somebody else's
    there.expireSnapshots().expireOlderThan(2**62).retainLast(1).cleanExpiredFiles(False).commit()
    found = KIND.commits_at(job, ORDERS, 0)
    assert (found.over, found.forgotten, KIND.commits(job)[1]) == ([], True, [Commit(ORDERS, Span(1, 1), 0)])
    assert (KIND.state(job)[1].rows, KIND.state(job)[1].rows_last_minute) == (1, 0)


def test_at_most_once_a_batch_that_was_put_back_is_not_on_record(store: LakeStore, options: IcebergOptions) -> None:
    batch = _batch(store)
    store.advance(batch)
    store.retreat(batch)
    job = SinkJob(PIPELINE, Guarantee.AT_MOST_ONCE, options)
    assert KIND.commits(job)[1] == []
    assert deliver(Guarantee.AT_LEAST_ONCE, batch, store, store).rows == 1
    assert KIND.commits(job)[1] == [Commit(ORDERS, Span(0, 1), 1)]
