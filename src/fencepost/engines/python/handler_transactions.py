"""A handler that writes through PostgreSQL's own transaction: what it does and the position are committed together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event as Flag
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.pq import TransactionStatus

from fencepost.engines.python.events import Event, event_of
from fencepost.engines.python.handler import call, require_done
from fencepost.engines.python.offset_store import Messages
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.engines.python.sink_offset_store import SinkDelivery
from fencepost.errors import Refused
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, TopicPartition
from fencepost.sinks.postgres import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.connection import Connection, translated

Events = list[Event]
TransactionHandler = Callable[[Events, "psycopg.Cursor[Any]"], object]


def in_transaction(settings: ConsumerSettings, dsn: str, handler: TransactionHandler, stop: Flag) -> SinkDelivery:
    """Each batch of events into the handler, with the open transaction."""
    work = _Work(handler, settings.retries, stop)
    target = PostgresSettings(dsn, settings.ledger, "", (), members=True)
    return SinkDelivery(Guarantee.EXACTLY_ONCE, lambda: PostgresStore(target, work), events_of, uuid4())


def events_of(_place: TopicPartition, messages: Messages, _hooks: Mapping[int, str]) -> Events:
    return [event_of(message) for message in messages]


@dataclass(frozen=True)
class _Work:
    """How a batch is written: by the handler."""

    handler: TransactionHandler
    retries: int
    stop: Flag

    def __call__(self, connection: Connection, batch: Batch[Events]) -> Landed:
        if batch.rows:
            call(lambda events: self._handle(connection, events), batch.rows, self.retries, self.stop)
        return Landed(rows=len(batch.rows))

    def _handle(self, connection: Connection, events: Events) -> None:
        """What a failed call has done is undone, and the transaction goes on."""
        with translated("begin the handler's work"):
            connection.execute("SAVEPOINT handler")
        try:
            with connection.cursor() as cursor:
                require_done(self.handler(events, cursor))
        except BaseException:
            with translated("undo the handler's work"):
                connection.execute("ROLLBACK TO handler")
            raise
        if connection.pgconn.transaction_status != TransactionStatus.INTRANS:
            raise Refused("the handler ended the transaction that it was given", "leave commit and rollback to us")
