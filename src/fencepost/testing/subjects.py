"""What the suites drive: somebody's sink or ledger, in a place that is empty at first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from fencepost.delivery import AtomicSink, Ledger, Sink
from fencepost.sinks.kind import Store


class LedgerSubject(Protocol):
    """One place that holds positions."""

    def open(self) -> Ledger:
        """A new handle, as a new process would have it."""


class SinkSubject(Protocol):
    """One place that holds rows; a row is known by its number."""

    doubles: bool  # a row that is written twice is there twice

    def open(self) -> Sink[Any]:
        """A new handle, as a new process would have it."""

    def rows(self, ids: Sequence[int]) -> Any:
        """Rows that the sink takes, read once."""

    def cut_rows(self, ids: Sequence[int]) -> Any:
        """Such rows that break off after these, before their span ends."""

    def landed(self) -> list[int]:
        """What a reader from outside sees now."""


class AtomicSubject(SinkSubject, Protocol):
    """A sink that keeps its own positions."""

    def open(self) -> AtomicSink[Any]: ...


class StoreSubject(SinkSubject, Protocol):
    """A sink that a pipeline file can name."""

    def open(self) -> Store: ...
