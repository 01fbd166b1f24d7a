"""An event to be sent, and the headers that it carries: who it is, and the checksum of its value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import uuid4
from zlib import crc32

from fencepost.errors import Usage
from fencepost.model import EVENT_CHECKSUM, EVENT_ID

Header = tuple[str, bytes | str | None]
Headers = Iterable[Header] | Mapping[str, bytes | str | None]


class Event(NamedTuple):
    """One record to be sent."""

    value: bytes | None
    key: bytes | None = None
    partition: int = -1  # by key, or any
    number: int = 0  # its place in a source that can be read again; 0: the producer counts
    id: str | None = None  # the caller's idempotency key, in place of producer and number
    headers: Headers = ()
    topic: str | None = None  # another than the producer's


def new_producer_id() -> str:
    """Sixteen hexadecimal digits, of one producer session."""
    return uuid4().hex[:16]


def headers_of(value: bytes | None, id_: bytes, headers: Headers = ()) -> list[Header]:
    """The event's own headers behind ours."""
    ours: list[Header] = [(EVENT_ID, id_), (EVENT_CHECKSUM, b"%08x" % crc32(value or b""))]
    if not headers:
        return ours
    theirs = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    for name, _ in theirs:
        if name in (EVENT_ID, EVENT_CHECKSUM):
            raise Usage(f"the header {name} is reserved", "give the event's id as id=...")
    return ours + theirs


def require_id(text: str) -> str:
    """An id that fits into one line of a journal and into a header."""
    if not text or len(text) > 1000 or re.search(r"[\x00-\x1f]", text):
        raise Usage(f"{text[:60]!r} is not a valid event id", "give 1 to 1,000 characters without line ends")
    return text
