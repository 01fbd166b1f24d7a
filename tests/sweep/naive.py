"""The control: a writer without a fence, whose position is moved in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from uuid import uuid4

import psycopg
import pyarrow as pa
from psycopg import sql

from fencepost.model import Batch, Span, Step, Tenure
from sweep.work import EVENTS, ORDERS, Naive, Work, next_span


class NaiveWriter:
    """Write, then note the position; `positions` is a table beside the target."""

    def __init__(self, work: Work, how: Naive) -> None:
        self._work = work
        self._how = how
        self._table = sql.Identifier(work.settings.table)
        self._positions = sql.Identifier(f"{work.settings.table}_position")
        self.connection = self._connect()

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(self._work.settings.dsn, autocommit=True)

    def position(self) -> int:
        found = self.connection.execute(sql.SQL("SELECT position FROM {}").format(self._positions)).fetchone()
        return int(found[0]) if found else 0

    def deliver(self, span: Span) -> None:
        batch = Batch({ORDERS: span}, None, Tenure(self._work.settings.pipeline, uuid4(), 0, {}))
        self._work.see(Step.STARTED, batch)
        self._write(self._work.rows(span))
        self._work.see(Step.WRITTEN, batch)
        self.note(span.end)
        self._work.see(Step.ADVANCED, batch)
        self._work.see(Step.DELIVERED, batch)

    def _write(self, rows: Iterable[pa.RecordBatch]) -> None:
        whole = nullcontext() if self._how is Naive.AUTOCOMMIT else self.connection.transaction()
        statement = sql.SQL("COPY {} (id) FROM STDIN").format(self._table)
        with whole:
            for part in rows:
                with self.connection.cursor().copy(statement) as copy:
                    copy.write("".join(f"{id_}\n" for id_ in part.column("id").to_pylist()))

    def note(self, position: int) -> None:
        self.connection.execute(sql.SQL("UPDATE {} SET position = %s").format(self._positions), (position,))

    def recover(self, span: Span) -> int:
        """After an error: where to go on."""
        self.connection.close()
        self.connection = self._connect()
        if self._how is Naive.GIVE_UP:
            self.note(span.end)
        return self.position()


def carry(work: Work, how: Naive, say: Callable[..., None]) -> None:
    writer = NaiveWriter(work, how)
    position = writer.position()
    while position < EVENTS:
        span = next_span(position)
        try:
            writer.deliver(span)
            position = span.end
        except psycopg.OperationalError:
            say(trouble="OperationalError")
            position = writer.recover(span)
    writer.connection.close()
