"""An open SQLite file: rows in a table, and their positions in a table beside it, moved in one transaction."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa

from fencepost import fence
from fencepost.errors import Fenced, PositionLost, Refused, Unknown, Unreachable
from fencepost.fence import Stored, StoredPosition
from fencepost.model import Batch, Landed, Tenure, TopicPartition

Rows = Iterable[pa.RecordBatch]
LOCK_SECONDS = 10.0  # how long a writer waits for another one's transaction
LEDGER = "_fencepost_positions"
_MAKE_LEDGER = f"""CREATE TABLE IF NOT EXISTS {LEDGER} (
    pipeline TEXT, topic TEXT, partition INTEGER, position INTEGER NOT NULL, owner TEXT NOT NULL,
    epoch INTEGER NOT NULL, topic_id TEXT, PRIMARY KEY (pipeline, topic, partition)
)"""
_READ = f"SELECT topic, partition, position, owner, epoch, topic_id FROM {LEDGER} WHERE pipeline = ?"
_PUT = f"INSERT OR REPLACE INTO {LEDGER} VALUES (?, ?, ?, ?, ?, ?, ?)"
_FORGET = f"DELETE FROM {LEDGER} WHERE pipeline = ? AND topic = ? AND partition = ?"
# the fence: compare and set
_MOVE = f"""UPDATE {LEDGER} SET position = ?
WHERE pipeline = ? AND topic = ? AND partition = ? AND position = ? AND owner = ?"""


@dataclass(frozen=True)
class SqliteTarget:
    """A file and a table in it."""

    path: str
    table: str

    def open(self) -> SqliteStore:
        return SqliteStore(self)


class SqliteStore:
    """An atomic sink. Opens the file when it is first needed: reading positions makes none."""

    def __init__(self, target: SqliteTarget) -> None:
        self._target = target
        self._opened: sqlite3.Connection | None = None

    # -- the sink

    def write(self, batch: Batch[Rows]) -> Landed:
        """Rows in a transaction of their own: for the two guarantees that take two steps."""
        rows = list(batch.rows)
        with self._writing() as connection:
            return self._insert(connection, rows)

    @contextmanager
    def transaction(self, _batch: Batch[Rows]) -> Iterator[SqliteTransaction]:
        """Nothing is locked before the commit: whoever stops before it keeps nobody waiting."""
        transaction = SqliteTransaction(self)
        yield transaction
        with self._writing() as connection:
            self._insert(connection, transaction.rows)
            for batch in transaction.advances:
                self._move(connection, batch, forward=True)

    def _insert(self, connection: sqlite3.Connection, rows: list[pa.RecordBatch]) -> Landed:
        for batch in rows:
            names = ", ".join(map(quoted, batch.schema.names))
            places = ", ".join("?" * batch.num_columns)
            values = zip(*(map(_value, column.to_pylist()) for column in batch.columns), strict=True)
            connection.executemany(f"INSERT INTO {quoted(self._target.table)} ({names}) VALUES ({places})", values)
        return Landed(rows=sum(batch.num_rows for batch in rows))

    # -- the ledger

    def stored(self, pipeline: str) -> Stored:
        if self._opened is None and not Path(self._target.path).exists():
            return {}
        connection = self.connection()
        with translated():
            rows = connection.execute(_READ, (pipeline,)).fetchall() if has_table(connection, LEDGER) else []
        return {
            TopicPartition(topic, number): StoredPosition(position, UUID(owner), epoch, topic_id)
            for topic, number, position, owner, epoch, topic_id in rows
        }

    def positions(self, pipeline: str) -> Mapping[TopicPartition, int]:
        return {at: held.position for at, held in self.stored(pipeline).items()}

    def done(self, batch: Batch[Any]) -> bool:
        return fence.landed(self.stored(batch.tenure.pipeline), batch)

    def advance(self, batch: Batch[Any]) -> None:
        with self._writing() as connection:
            self._move(connection, batch, forward=True)

    def retreat(self, batch: Batch[Any]) -> None:
        with self._writing() as connection:
            self._move(connection, batch, forward=False)

    def _move(self, connection: sqlite3.Connection, batch: Batch[Any], forward: bool) -> None:
        (fence.require_start if forward else fence.require_end)(self.stored(batch.tenure.pipeline), batch)
        owner = (batch.tenure.pipeline, str(batch.tenure.token))
        for at, span in batch.spans.items():
            before, after = (span.start, span.end) if forward else (span.end, span.start)
            moved = connection.execute(_MOVE, (after, owner[0], *at, before, owner[1])).rowcount
            if moved != 1:
                raise Fenced(f"{batch}: the position of {at} is not {before}, or another run's")

    def take_over(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Tenure:
        with self._writing() as connection:
            stored = self._entered(connection, pipeline, topic_ids)
            epoch = _epoch_of(stored, run)
            taken = {at: stored[at].position if at in stored else offset for at, offset in first.items()}
            _put(connection, pipeline, {at: _held(at, to, run, epoch, topic_ids) for at, to in taken.items()})
            return Tenure(pipeline, run, epoch, taken)

    def begin(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> None:
        with self._writing() as connection:
            stored = self._entered(connection, pipeline, topic_ids)
            new = {at: _held(at, to, run, _epoch_of(stored, run), topic_ids) for at, to in first.items()}
            _put(connection, pipeline, {at: held for at, held in new.items() if at not in stored})

    def _entered(self, connection: sqlite3.Connection, pipeline: str, topic_ids: Mapping[str, str]) -> Stored:
        stored, table = self.stored(pipeline), self._target.table
        fence.require_same_topics(pipeline, stored, topic_ids)
        if not stored and has_table(connection, table) and _holds_rows(connection, table):
            raise PositionLost(
                f"no position is stored for pipeline {pipeline!r}, but table {table!r} holds rows",
                "choose where to continue with `fencepost positions set`, or use an empty table",
            )
        return stored

    def renew(self, tenure: Tenure, run: UUID) -> Tenure:
        with self._writing() as connection:
            stored = self.stored(tenure.pipeline)
            fence.require_own(stored, tenure, run)
            renewed = {at: replace(stored[at], owner=run) for at in tenure.positions}
            _put(connection, tenure.pipeline, renewed)
            return tenure.renewed(run, {at: held.position for at, held in renewed.items()})

    def require_same(self, pipeline: str, topic_ids: Mapping[str, str]) -> None:
        fence.require_same_topics(pipeline, self.stored(pipeline), topic_ids)

    def set_positions(
        self,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        with self._writing() as connection:
            stored, nobody = self.stored(pipeline), uuid4()
            stay = {at: stored[at].position if at in stored else to for at, to in (kept or {}).items()}
            topics = {at.topic for at in (*positions, *stay)}
            gone = [(pipeline, *at) for at in stored if at.topic in topics]
            connection.executemany(_FORGET, gone)
            epoch, every = fence.newest_epoch(stored) + 1, {**stay, **positions}
            _put(connection, pipeline, {at: _held(at, to, nobody, epoch, topic_ids) for at, to in every.items()})

    # -- the file

    def connection(self) -> sqlite3.Connection:
        """Transactions are begun by hand. A lane's thread is not the one that made the store."""
        if self._opened is None:
            with translated():
                self._opened = sqlite3.connect(
                    self._target.path, LOCK_SECONDS, isolation_level=None, check_same_thread=False
                )
        return self._opened

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, the only one that writes: what is read in it cannot change before it commits."""
        connection = self.connection()
        with translated():
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute(_MAKE_LEDGER)
                yield connection
            except BaseException:
                if connection.in_transaction:  # SQLite itself ends it after some errors
                    connection.execute("ROLLBACK")
                raise
        self._commit(connection)

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
                raise Unreachable(f"SQLite did not commit: {error}") from error
            raise Unknown(f"SQLite did not say whether it committed: {error}") from error

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


class SqliteTransaction:
    """Rows and advances that wait for their commit."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.rows: list[pa.RecordBatch] = []
        self.advances: list[Batch[Any]] = []

    def write(self, batch: Batch[Rows]) -> Landed:
        rows = list(batch.rows)  # read to the end: an input that is cut off leaves nothing
        self.rows += rows
        return Landed(rows=sum(one.num_rows for one in rows))

    def advance(self, batch: Batch[Any]) -> None:
        fence.require_start(self._store.stored(batch.tenure.pipeline), batch)
        self.advances.append(batch)


@contextmanager
def translated() -> Iterator[None]:
    """SQLite's errors as ours, by their code. Nothing of the transaction is written."""
    try:
        yield
    except (sqlite3.IntegrityError, OverflowError) as error:
        raise Refused(f"SQLite refuses a row: {error}", about_values=True) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL):
            raise Unreachable(f"SQLite does not answer: {error}") from error
        raise Refused(f"SQLite refuses: {error}") from error


def has_table(connection: sqlite3.Connection, table: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
    return connection.execute(query, (table,)).fetchone() is not None


def _holds_rows(connection: sqlite3.Connection, table: str) -> bool:
    return bool(connection.execute(f"SELECT EXISTS (SELECT 1 FROM {quoted(table)})").fetchone()[0])


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _epoch_of(stored: Stored, run: UUID) -> int:
    """One more than all before; who is the newest owner stays it."""
    newest = fence.newest_epoch(stored)
    return newest if any(held.owner == run and held.epoch == newest for held in stored.values()) else newest + 1


def _held(at: TopicPartition, position: int, owner: UUID, epoch: int, topic_ids: Mapping[str, str]) -> StoredPosition:
    return StoredPosition(position, owner, epoch, topic_ids.get(at.topic))


def _put(connection: sqlite3.Connection, pipeline: str, positions: Stored) -> None:
    rows = [
        (pipeline, *at, held.position, str(held.owner), held.epoch, held.topic_id) for at, held in positions.items()
    ]
    connection.executemany(_PUT, rows)


def _value(value: Any) -> Any:
    """As SQLite keeps it. NaN would become NULL."""
    if isinstance(value, float) and math.isnan(value):
        raise Refused("SQLite has no NaN", "leave such values out in the transform", about_values=True)
    if isinstance(value, date):  # and a moment
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
