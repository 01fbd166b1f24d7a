"""The idea: for every batch, write it to the sink and advance the position. The order is the guarantee.

    advance, then write       at most once     a crash between the two loses the batch
    write, then advance       at least once    a crash between the two repeats it
    both in one transaction   exactly once     behind a fence

The fence: the position moves by compare-and-set, from the batch's start to its end, under its owner's token.
A replay finds it at the end and skips; a gap, an overlap or another owner raises `Fenced`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, runtime_checkable
from uuid import UUID

from fencepost.errors import Fenced, Unknown, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Step, Tenure, TopicPartition

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


@runtime_checkable
class Sink(Protocol[R_contra]):
    """Where rows go."""

    def write(self, batch: Batch[R_contra]) -> Landed:
        """Write the rows, which can be read once. They are durable on return, or when the transaction ends.

        Raises Unreachable (nothing written), Unknown (perhaps), Refused (never will be), InputCut.
        """


class Progress(Protocol):
    """The positions of a batch, moved by compare-and-set."""

    def advance(self, batch: Batch[Any]) -> None:
        """Move every position from the batch's start to its end if position and owner are as expected.

        Raises Fenced when they are not and then moves none; Unknown when no answer came.
        """


@runtime_checkable
class Ledger(Progress, Protocol):
    """Where positions are kept, with who may move them."""

    def done(self, batch: Batch[Any]) -> bool:
        """Is every position at the batch's end (True) or at its start (False)? Fenced otherwise.

        Locks nothing: a reader that stalls must not block its successor.
        """

    def positions(self, pipeline: str) -> Mapping[TopicPartition, int]:
        """What is stored for the pipeline, without taking anything over. Empty when nothing is."""

    def take_over(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Tenure:
        """Make `run` the owner of the partitions in `first`; its offsets count only where none is stored yet.

        On return no earlier owner can move these positions, and the tenure holds what stands there. May be repeated.
        Raises PositionLost where nothing is stored for the pipeline though the sink holds rows, TopicRecreated
        where a stored topic id is another one.
        """

    def renew(self, tenure: Tenure, run: UUID) -> Tenure:
        """The same owner under a new token, after an error, so that its own stragglers are fenced off too.

        Compare-and-set on the old token, or on `run` itself (a renewal whose answer was lost); else Fenced.
        """


class Transaction(Sink[R_contra], Progress, Protocol[R_contra]):
    """Rows and positions that become visible together or not at all."""


@runtime_checkable
class AtomicSink(Sink[R_contra], Ledger, Protocol[R_contra]):
    """A sink that keeps the positions too, and can move both in one atomic step."""

    def transaction(self, batch: Batch[R_contra]) -> AbstractContextManager[Transaction[R_contra]]:
        """Commits on a clean exit, rolls back on an exception. A commit without an answer raises Unknown."""


Observer = Callable[[Step, Batch[Any]], None]


def nobody(_step: Step, _batch: Batch[Any]) -> None:
    """The observer that is used when nobody watches."""


def at_most_once(batch: Batch[R], sink: Sink[R], progress: Progress, see: Observer) -> Landed:
    progress.advance(batch)
    see(Step.ADVANCED, batch)  # a crash here loses the batch
    landed = sink.write(batch)
    see(Step.WRITTEN, batch)
    return landed


def at_least_once(batch: Batch[R], sink: Sink[R], progress: Progress, see: Observer) -> Landed:
    landed = sink.write(batch)
    see(Step.WRITTEN, batch)  # a crash here repeats it
    progress.advance(batch)
    see(Step.ADVANCED, batch)
    return landed


def exactly_once(batch: Batch[R], store: Sink[R], see: Observer) -> Landed:
    if not isinstance(store, AtomicSink):
        raise TypeError("exactly-once needs a sink that keeps its own positions; rules.py refuses this earlier")
    with store.transaction(batch) as transaction:
        return at_least_once(batch, transaction, transaction, see)


def deliver(guarantee: Guarantee, batch: Batch[R], sink: Sink[R], ledger: Ledger, see: Observer = nobody) -> Landed:
    """Carry one batch under the guarantee; the same batch again changes nothing and says "already"."""
    already = Landed(rows=0, already=True)
    if ledger.done(batch):
        return already
    see(Step.STARTED, batch)
    try:
        match guarantee:
            case Guarantee.AT_MOST_ONCE:
                landed = at_most_once(batch, sink, ledger, see)
            case Guarantee.AT_LEAST_ONCE:
                landed = at_least_once(batch, sink, ledger, see)
            case Guarantee.EXACTLY_ONCE:
                landed = exactly_once(batch, sink, see)
    except (Fenced, Unknown, Unreachable) as trouble:
        if not arrived(batch, ledger):
            raise
        if guarantee is Guarantee.AT_MOST_ONCE and not isinstance(trouble, Fenced):
            raise  # advanced, but perhaps not written: the caller must hear of what may be lost
        return already
    see(Step.DELIVERED, batch)
    return landed


def arrived(batch: Batch[Any], ledger: Ledger) -> bool:
    """Did an attempt of our own land after all? Fenced where somebody else took over; False where nobody answers."""
    try:
        return ledger.done(batch)
    except Unreachable:
        return False
