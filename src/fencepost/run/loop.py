"""The run loop: a pipeline's engine and a handler's members are run, and after trouble run again, here alone.

Trouble ends an attempt; the next one starts from what is stored, on the same path as after a crash.
Below it single steps are repeated, for a bounded time: docs/architecture.md has the list.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import Protocol

from fencepost.engines.backoff import Backoff
from fencepost.engines.listener import BatchDone, Listener, News, NotDrained, PartitionsAdded, Skipped, Waiting
from fencepost.errors import FencepostError, RecordsGone, Rewound, Unknown, Unreachable
from fencepost.model import Landed, TopicPartition


@dataclass
class Summary:
    """What a run did, from its start to its end."""

    batches: int = 0
    rows: int = 0  # with a handler: events
    dead: int = 0
    restarts: int = 0
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    left: NotDrained | None = None  # waits in partitions of other members, when the run was to drain
    gaps: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)  # where each ends: one may be told twice

    @property
    def skipped(self) -> int:
        """Offsets that were gone before they were read."""
        return sum(end - start for (_, start), end in self.gaps.items())

    def hear(self, news: News) -> None:
        match news:
            case BatchDone():
                self.batches += 1
                self.rows += news.rows
                self.dead += news.dead
                self.positions.update(news.positions)
            case Skipped():
                self.gaps[news.partition, news.span.start] = news.span.end
            case NotDrained():
                self.left = news

    def settle(self, landed: Landed | None) -> None:
        """Count what was committed in attempts that failed afterwards too: no batch told of it."""
        if landed is not None:
            self.rows, self.dead = landed.rows, landed.dead


class Attempts(Protocol):
    """What is run: one attempt after the other, each from what is stored."""

    def carry(self, once: bool, report: Listener) -> None:
        """One attempt: until drained (once) or stopped. Raises what went wrong, PartitionsAdded between batches."""

    def renew(self) -> None:
        """Before the next attempt; called again after Unreachable or Unknown. Raises Fenced if another took over."""

    def landed(self) -> Landed | None:
        """What all attempts together committed; None: what they reported."""


class RunLoop:
    """Of one run. `skip_gone`: records that are gone before they were read do not end it."""

    def __init__(self, once: bool, stop: Event, listen: Listener, skip_gone: bool = False) -> None:
        self._once = once
        self._stop = stop
        self._listen = listen
        self._skip_gone = skip_gone
        self._backoff = Backoff(once)
        self._gap = ""  # the last one that ended an attempt
        self.summary = Summary()

    def run(self, attempts: Attempts) -> Summary:
        """Until stopped, or (once) drained. Goes on after an outage; raises what a person must see to."""
        while not self._stop.is_set() and not self._ended(attempts):
            self.summary.restarts += 1
            self._renew(attempts)
        self.summary.settle(attempts.landed())
        return self.summary

    def _ended(self, attempts: Attempts) -> bool:
        """One attempt. False: there is to be another one, now."""
        try:
            attempts.carry(self._once, self._hear)
            return True
        except (Unreachable, Unknown, Rewound) as trouble:
            self._wait(trouble)
        except PartitionsAdded:
            pass
        except RecordsGone as gone:
            if not self._skip_gone:
                raise
            if gone.message == self._gap:  # it did not get over them: not again without a pause
                self._wait(gone)
            else:
                self._listen(Waiting(gone.message, 0.0))  # the next attempt begins after them
            self._gap = gone.message
        return False

    def _renew(self, attempts: Attempts) -> None:
        while not self._stop.is_set():
            try:
                attempts.renew()
                return
            except (Unreachable, Unknown) as trouble:
                self._wait(trouble)

    def _hear(self, news: News) -> None:
        if isinstance(news, BatchDone):
            self._backoff.renew()
        self.summary.hear(news)
        self._listen(news)

    def _wait(self, trouble: FencepostError) -> None:
        seconds = self._backoff.next_wait(trouble)
        self._listen(Waiting(str(trouble), seconds))
        self._stop.wait(seconds)
