"""A handler that writes through a sink's own transaction: what it does and the position are committed together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from threading import Event as Flag
from typing import Any
from uuid import uuid4

from fencepost.engines.python.events import Event, event_of
from fencepost.engines.python.handler import call, require_done
from fencepost.engines.python.offset_store import Messages
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.engines.python.sink_offset_store import SinkDelivery
from fencepost.guarantee import Guarantee
from fencepost.model import TopicPartition
from fencepost.sinks import registry
from fencepost.sinks.handlers import RunsHandlers

Events = list[Event]
TransactionHandler = Callable[[Events, Any], object]
"""Called with the events and the open transaction: for PostgreSQL, a cursor of psycopg's."""


def in_transaction(settings: ConsumerSettings, dsn: str, handler: TransactionHandler, stop: Flag) -> SinkDelivery:
    """Each batch of events into the handler, with the open transaction."""
    _, kind = registry.able(RunsHandlers)

    def handle(events: Events, transaction: object) -> None:
        require_done(handler(events, transaction))

    attempts = partial(call, retries=settings.retries, stop=stop)
    target = kind.handler_target(dsn, settings.ledger, handle, attempts)
    return SinkDelivery(Guarantee.EXACTLY_ONCE, target.open, events_of, uuid4())


def events_of(_place: TopicPartition, messages: Messages, _hooks: Mapping[int, str]) -> Events:
    return [event_of(message) for message in messages]
