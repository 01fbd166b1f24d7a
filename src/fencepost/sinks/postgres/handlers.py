"""A handler that writes through PostgreSQL's own transaction: what it does and the position are committed together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from fencepost.errors import Refused
from fencepost.model import Batch, Landed
from fencepost.sinks.handlers import Attempt
from fencepost.sinks.postgres.connection import Connection, translated
from fencepost.sinks.postgres.store import PostgresSettings, PostgresStore


@dataclass(frozen=True)
class HandlerTarget:
    """A database, and how a batch gets into it."""

    settings: PostgresSettings
    work: HandlerWork

    def open(self) -> PostgresStore:
        return PostgresStore(self.settings, self.work)


@dataclass(frozen=True)
class HandlerWork:
    """How a batch is written: by the handler."""

    handler: Callable[[Any, psycopg.Cursor[Any]], object]
    call: Callable[[Attempt, Any], object]  # attempts it, and again where it raises

    def __call__(self, connection: Connection, batch: Batch[Any]) -> Landed:
        if batch.rows:
            self.call(lambda events: self._attempt(connection, events), batch.rows)
        return Landed(rows=len(batch.rows))

    def _attempt(self, connection: Connection, events: Any) -> None:
        """What a failed call has done is undone, and the transaction goes on."""
        with translated("begin the handler's work"):
            connection.execute("SAVEPOINT handler")
        try:
            with connection.cursor() as cursor:
                self.handler(events, cursor)
        except BaseException:
            with translated("undo the handler's work"):
                connection.execute("ROLLBACK TO handler")
            raise
        if connection.pgconn.transaction_status != TransactionStatus.INTRANS:
            raise Refused(
                "the handler committed or rolled back the transaction", "do not call commit or rollback on it"
            )
