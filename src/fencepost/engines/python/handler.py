"""The user's function as a sink: called with a batch's events, again when it fails, and then no more."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from threading import Event as Flag
from typing import Any

from confluent_kafka import Message

from fencepost.engines.python.events import Event, event_of
from fencepost.errors import FencepostError, Refused, Usage
from fencepost.model import Batch, Landed
from fencepost.rows.functions import said

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0

NOT_COMMITTED = "nothing from there on is committed: fix the handler, and run again"
COMMITTED_FIRST = (  # at most once
    "these were committed before the handler was called, and it is not called with them again: fix it, and run "
    "again for the events after them"
)
PUT_BACK = (  # at most once, where the sink keeps the position
    "nothing of it was written, and the position, which had moved first, was put back before them: fix the handler, "
    "and run again"
)
IN_DOUBT = "fix the handler, and check the stored position before you run again"

Handler = Callable[[list[Event]], object]


class HandlerFailed(Refused):
    """The handler raised for these events, and again when it was called again."""


Patiently = Callable[[Callable[[], Any]], Any]
"""Runs something that may take long, while the group is still talked to."""


class HandlerSink:
    """Calls a handler. What it did before it raised is done: only its author can undo that."""

    def __init__(
        self, handler: Handler, retries: int, stop: Flag, patiently: Patiently, remedy: str = NOT_COMMITTED
    ) -> None:
        self._handler = handler
        self._retries = retries
        self._stop = stop
        self._patiently = patiently
        self._remedy = remedy

    def write(self, batch: Batch[list[Message]]) -> Landed:
        events = [event_of(message) for message in batch.rows]
        self._patiently(lambda: call(self._handler, events, self._retries, self._stop, self._remedy))
        return Landed(rows=len(batch.rows))


def call(handler: Handler, events: list[Event], retries: int, stop: Flag, remedy: str = NOT_COMMITTED) -> None:
    """Call it, and again after a pause when it raises. Our own errors are not the handler's: they go through.

    `remedy`: what HandlerFailed says, which depends on when the position moves.
    """
    for left in range(retries, -1, -1):
        try:
            require_done(handler(events))
            return
        except FencepostError:
            raise
        except (SystemExit, GeneratorExit) as error:  # it ends its own work, not the process that commits
            raise _failed(events, error, remedy) from error
        except Exception as error:
            if left == 0 or stop.is_set():
                raise _failed(events, error, remedy) from error
            stop.wait(_pause(retries - left))


def _pause(failures: int) -> float:
    return float(min(FIRST_WAIT * 2**failures, LONGEST_WAIT) * random.uniform(0.5, 1.0))  # noqa: S311 (no secret)


def require_done(result: object) -> None:
    """Raises Usage where the handler has only promised to do something: nobody would wait for it."""
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        result.close()
    elif not (inspect.isasyncgen(result) or inspect.isawaitable(result)):
        return
    raise Usage(f"the handler returned a {type(result).__name__}: none of its code has run", "write def, without yield")


def _failed(events: list[Event], error: BaseException, remedy: str) -> HandlerFailed:
    which = str(events[0]) if len(events) == 1 else f"{events[0]} and {len(events) - 1} after it"
    kind = type(error).__name__
    return HandlerFailed(
        f"the handler raised {kind} for {which}: {said(error).removeprefix(f'{kind}: ')}",
        remedy,
    )
