"""Where test events come from: numbers, a file, or standard input."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from fencepost.producing.sending import Event

FIRST_ORDER = datetime(2026, 1, 1, tzinfo=UTC)
CUSTOMERS = 100


def orders(count: int) -> Iterator[Event]:
    """Numbered orders: the same ones every time, keyed by customer."""
    for number in range(count):
        customer = f"c-{number % CUSTOMERS}"
        value = {
            "id": number,
            "customer": customer,
            "amount": f"{number % 997}.{number % 100:02d}",
            "placed_at": (FIRST_ORDER + timedelta(seconds=number)).isoformat(),
        }
        yield Event(json.dumps(value).encode(), customer.encode())


def lines(source: Iterable[bytes]) -> Iterator[Event]:
    """One event per line, without its line end; empty lines are none."""
    for line in source:
        if text := line.rstrip(b"\r\n"):
            yield Event(text)
