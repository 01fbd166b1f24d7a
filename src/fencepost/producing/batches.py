"""A source cut into batches: how much goes together, how fast, and the same again after an attempt failed."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from fencepost.model import Batch
from fencepost.producing.events import Event
from fencepost.producing.sources.source import BrokenLine, Place, Source

_TICK_SECONDS = 0.1  # a slow source's events are handed over at least this often


@dataclass(frozen=True)
class Limits:
    """How much goes in one batch, whichever is reached first; and how fast."""

    records: int = 200_000
    size: int = 64 * 1024 * 1024  # bytes of values
    seconds: float = 10.0
    chunk: int = 5_000  # events that are handed over, and journaled, at a time
    rate: float = 0.0  # events a second; 0: as fast as it goes


class Reader:
    """The events of a source from a place on, each read once."""

    def __init__(self, source: Source, place: Place | None, limits: Limits) -> None:
        self._source = source
        self._events = source.open(place)
        self._started = time.monotonic()
        self._taken = 0
        self.limits = limits
        self.broken: BrokenLine | None = None  # the line at which it ended
        self.ended = False

    def place(self) -> Place:
        """As it will be read back: JSON has no tuples."""
        place: Place = json.loads(json.dumps(self._source.place()))
        return place

    def take(self, most: int) -> list[Event]:
        """The next few events; fewer when they come slowly, none at the end."""
        taken: list[Event] = []
        until = time.monotonic() + _TICK_SECONDS
        try:
            for event in self._events:
                taken.append(event)
                if self.limits.rate:
                    self._wait(self._taken + len(taken))
                if len(taken) >= most or time.monotonic() > until:
                    break
            else:
                self.ended = True
        except BrokenLine as error:
            self.broken, self.ended = error, True
        self._taken += len(taken)
        return taken

    def _wait(self, events: int) -> None:
        due = self._started + (events - 1) / self.limits.rate
        while (left := due - time.monotonic()) > 0:
            time.sleep(left)  # the pace itself, not a wait for anything


class Chunks:
    """A batch's events, read as they are sent, and the places before and behind them."""

    def __init__(self, reader: Reader, before: Place | None) -> None:
        self._reader = reader
        self._complete = False
        self.before = before
        self.after: Place | None = None  # known when the last chunk was read
        self.events: list[Event] = []
        self.taken = 0  # how many were read, with those that were left out since

    def chunks(self) -> Iterator[list[Event]]:
        """What was read before, then the rest; after an attempt that failed, all of it again."""
        limits = self._reader.limits
        yield from (self.events[at : at + limits.chunk] for at in range(0, len(self.events), limits.chunk))
        size, until = sum(len(event.value or b"") for event in self.events), time.monotonic() + limits.seconds
        while not self._complete:
            chunk = self._reader.take(min(limits.chunk, limits.records - len(self.events)))
            size += sum(len(event.value or b"") for event in chunk)
            self.events += chunk
            self.taken += len(chunk)
            full = len(self.events) >= limits.records or size >= limits.size or time.monotonic() > until
            if full or self._reader.ended:
                self._complete, self.after = True, self._reader.place()
            if chunk:
                yield chunk

    def empty(self) -> bool:
        """Is this the end of the source? Waits for the first chunk."""
        return next(self.chunks(), None) is None and not self.taken

    def read(self) -> Place:
        """The place behind it, when all of it was read."""
        for _ in self.chunks():
            pass
        if self.after is None:
            raise AssertionError("a batch that was read has an end")
        return self.after

    def leave_out(self, numbers: Collection[int]) -> None:
        self.events = [event for event in self.events if event.number not in numbers]


class SourceBatch(Batch[Chunks]):
    """A batch of a source. It has no spans of Kafka's: its chunks have the places, the last one when it is read."""

    def __str__(self) -> str:
        return f"{self.tenure.pipeline}: events from number {(self.rows.before or {}).get('number', 0) + 1} on"
