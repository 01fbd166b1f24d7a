"""Sending a lot at once with acks=all: every event ends acked, refused or unknown. Memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from fencepost.producing.delivery_reports import Totals
from fencepost.producing.events import Event
from fencepost.producing.source_producer import SourceProducer

__all__ = ["Event", "send"]
_CHUNK = 5_000


def send(kafka: Mapping[str, str], topic: str, events: Iterable[Event]) -> Totals:
    """Send them all and wait for every answer. Raises Usage, Unreachable."""
    rest = iter(events)
    with SourceProducer(topic, None, kafka, delivery_reports=False) as producer:
        while chunk := list(islice(rest, _CHUNK)):
            producer.send_all(chunk)
        return producer.flush()
