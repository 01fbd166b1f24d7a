"""Where events come from, and sources that can be read again from a place that they named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from fencepost.errors import PositionLost, Refused
from fencepost.producing.events import Event

FIRST_ORDER = datetime(2026, 1, 1, tzinfo=UTC)
CUSTOMERS = 100

Place = Mapping[str, Any]
"""A place in a source, as JSON: what a restart needs to go on there."""


class Source(Protocol):
    """Events that can be read again. Their numbers rise from 1 and are the same every time."""

    def open(self, place: Place | None) -> Iterator[Event]:
        """The events behind the place, or all of them. Raises PositionLost when the place does not fit any more."""

    def place(self) -> Place:
        """Behind the event that was yielded last, or where it was opened.

        Holds that event's `number`, 0 at the start.
        """

    @property
    def fingerprint(self) -> str:
        """Tells this source from others, from its first event on: with a number it is an event's id.

        Empty: its events have no numbers, and it cannot be read again.
        """


class BrokenLine(Refused):
    """A line that is no event."""


class Numbered:
    """A Python iterator that can seek: `read(n)` gives the events behind the first n."""

    def __init__(self, read: Callable[[int], Iterable[Event]], fingerprint: str) -> None:
        self._read = read
        self._number = 0
        self.fingerprint = fingerprint_of(fingerprint.encode())

    def open(self, place: Place | None) -> Iterator[Event]:
        if place is not None and place.get("fingerprint") != self.fingerprint:
            raise PositionLost(
                "the stored position belongs to another source, or to other parameters",
                "give the same parameters as before, or another --name for another source",
            )
        self._number = int(place["number"]) if place else 0
        return self._from_here()

    def _from_here(self) -> Iterator[Event]:
        for event in self._read(self._number):
            self._number += 1
            yield event._replace(number=self._number)

    def place(self) -> Place:
        return {"number": self._number, "fingerprint": self.fingerprint}


class Stream:
    """Events that can be read once, such as standard input's lines."""

    fingerprint = ""

    def __init__(self, events: Iterable[Event]) -> None:
        self._events = events

    def open(self, place: Place | None) -> Iterator[Event]:
        if place is not None:
            raise PositionLost("a stream cannot be read again from a place", "send a file instead")
        return iter(self._events)

    def place(self) -> Place:
        return {}


def fingerprint_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def orders(count: int, keys: int = CUSTOMERS, size: int = 0, after: int = 0) -> Iterator[Event]:
    """Numbered orders: the same ones every time, keyed by customer; `size` fills their values up to so many bytes."""
    for number in range(after, count):
        customer = f"c-{number % keys}"
        value = {
            "id": number,
            "customer": customer,
            "amount": f"{number % 997}.{number % 100:02d}",
            "placed_at": (FIRST_ORDER + timedelta(seconds=number)).isoformat(),
        }
        text = json.dumps(value)
        if len(text) < size:
            text = json.dumps({**value, "filler": "x" * max(size - len(text) - len(', "filler": ""'), 0)})
        yield Event(text.encode(), customer.encode())


def numbered_orders(count: int, keys: int = CUSTOMERS, size: int = 0, series: str = "") -> Numbered:
    """The same, as a source that can be read again; a larger count goes on behind a smaller one.

    `series`: tells these orders from others that look the same, so that their events have ids of their own.
    """
    fingerprint = f"orders keys={keys} size={size}" + (f" series={series}" if series else "")
    return Numbered(lambda after: orders(count, keys, size, after), fingerprint)
