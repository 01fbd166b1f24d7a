"""Where a handler's work can be committed together with the position: kinds of sink that can do so, and what it gives.

A handler writes through a sink's own transaction, or returns outputs that a sink writes in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from fencepost.sinks.kind import Target

Headers = Sequence[tuple[str, str | bytes | None]]


@dataclass(frozen=True, slots=True)
class Output:
    """One record to be written."""

    value: bytes | None
    key: bytes | None = None
    topic: str | None = None  # None: the first of the sink's topics
    headers: Headers = ()
    partition: int | None = None  # None: by key, or any
    timestamp: int | None = None  # in milliseconds; None: when it is written


Attempt = Callable[[Any], object]
"""One call of the handler with a batch's events."""


@runtime_checkable
class RunsHandlers(Protocol):
    """Lends its transaction to a handler: what that writes through it is committed with the position."""

    def handler_target(
        self, dsn: str, pipeline: str, handler: Callable[[Any, Any], object], call: Callable[[Attempt, Any], object]
    ) -> Target:
        """Its store has `handler(events, transaction)` called where others write rows.

        `call(attempt, events)` makes the attempt, and another one where it raises: what the first has done is undone.
        The store raises Refused where the handler ended the transaction.
        """


@runtime_checkable
class TakesOutputs(Protocol):
    """Writes what a handler returns, and the position, in one transaction."""

    def output_target(
        self,
        kafka: Mapping[str, str],
        pipeline: str,
        topics: tuple[str, ...],
        group: str,
        make: Callable[[Any], Iterable[Output]],
    ) -> Target:
        """Its store writes what `make` returns for a batch's events.

        The first of the topics is meant where an output names none. `group` keeps the positions.
        """
