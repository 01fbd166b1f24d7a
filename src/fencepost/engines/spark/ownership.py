"""Keeps asking the ledger, beside a query that may be idle or stuck: is it still ours, and does it answer at all?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Self

from fencepost import fence
from fencepost.errors import FencepostError
from fencepost.model import Tenure
from fencepost.sinks.kind import KnowsItsOwner, SinkKind, Target

EVERY = 3.0  # seconds between two questions
SILENCE = 5.0  # seconds without an answer, after which that is worth a word


# Opened and closed in the thread that asks; what it gives raises where something is wrong
Guard = Callable[[], AbstractContextManager[Callable[[], object]]]


def unguarded() -> AbstractContextManager[Callable[[], object]]:
    """The guard that is used where there is nothing to ask."""
    return nullcontext(lambda: None)


def guard_of(kind: SinkKind, target: Target, tenure: Tenure) -> AbstractContextManager[Callable[[], object]]:
    """Fenced where another run owns the positions, else a heartbeat for standbys."""
    return kind.watch(target, tenure) if isinstance(kind, KnowsItsOwner) else _looking(target, tenure)


@contextmanager
def _looking(target: Target, tenure: Tenure) -> Iterator[Callable[[], object]]:
    with closing(target.open()) as store:  # on a connection of its own
        yield lambda: fence.require_own(store.stored(tenure.pipeline), tenure)


class OwnershipWatch:
    """Asks in a thread of its own: on a line that swallows everything no answer ever comes, and no error either."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._asked_at: float | None = None
        self._over = Event()
        self._told = False
        self.trouble: FencepostError | None = None  # what the last question ended with

    def __enter__(self) -> Self:
        Thread(target=self._look, name="watch", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()  # not waited for: it may hang in its last question

    def falls_silent(self) -> bool:
        """True once for each question that is not answered in time."""
        asked_at = self._asked_at
        silent = asked_at is not None and monotonic() - asked_at > SILENCE
        told, self._told = self._told, silent
        return silent and not told

    def _look(self) -> None:
        with self._guard() as ask:
            while not self._over.wait(EVERY):
                self._asked_at = monotonic()
                try:
                    ask()
                    self.trouble = None
                except FencepostError as error:
                    self.trouble = error
                self._asked_at = None
