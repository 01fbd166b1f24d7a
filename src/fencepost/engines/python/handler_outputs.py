"""A handler whose results go to Kafka: outputs and the input's position in one transaction per batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Event as Flag
from uuid import uuid4

from fencepost.engines.python.events import Event
from fencepost.engines.python.handler import IN_DOUBT, NOT_COMMITTED, call
from fencepost.engines.python.handler_transactions import events_of
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.engines.python.sink_offset_store import SinkDelivery
from fencepost.guarantee import Guarantee
from fencepost.rules.findings import require
from fencepost.rules.topics import loop_findings
from fencepost.sinks import registry
from fencepost.sinks.handlers import Output, TakesOutputs

Outputs = Iterable[Output] | None
OutputHandler = Callable[[list[Event]], Outputs]
"""Zero, one or many outputs for each event, in the order in which they are to be written."""


def into_topics(
    settings: ConsumerSettings, topics: tuple[str, ...], handler: OutputHandler, stop: Flag
) -> SinkDelivery:
    """What the handler returns, into these topics; the first is meant where an output names none."""
    require(settings.guarantee, loop_findings(settings.topics, topics))
    _, kind = registry.able(TakesOutputs)
    first = settings.guarantee is Guarantee.AT_MOST_ONCE
    made = _Made(handler, settings.retries, stop, IN_DOUBT if first else NOT_COMMITTED)
    kept = f"this sink, with the option group: {settings.group}"
    target = kind.output_target(settings.kafka, settings.ledger, topics, settings.group, made)
    return SinkDelivery(settings.guarantee, target.open, events_of, uuid4(), sink=kept)


@dataclass(frozen=True)
class _Made:
    """What a handler makes of events. It is called again when it fails: its effects elsewhere are its author's."""

    handler: OutputHandler
    retries: int
    stop: Flag
    remedy: str

    def __call__(self, events: list[Event]) -> list[Output]:
        made: list[Output] = []

        def handle(events: list[Event]) -> None:
            made[:] = self.handler(events) or ()

        if events:
            call(handle, events, self.retries, self.stop, self.remedy)
        return made
