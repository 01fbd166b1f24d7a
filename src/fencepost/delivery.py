"""The idea: for every batch, write it to the sink and advance the position. The order is the guarantee.

    advance, then write       at most once     a crash between the two loses the batch
    write, then advance       at least once    a crash between the two repeats it
    both in one transaction   exactly once     behind a fence

The fence: the position moves by compare-and-set, from the batch's start to its end, under its owner's token.
A replay finds it at the end and skips; a gap, an overlap or another owner raises `Fenced`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol, TypeVar, runtime_checkable
from uuid import UUID

from fencepost.errors import Fenced, FencepostError, Refused, Unknown, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Step, Tenure, TopicPartition

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


@runtime_checkable
class Sink(Protocol[R_contra]):
    """Where rows go."""

    def write(self, batch: Batch[R_contra]) -> Landed:
        """Write the rows, which can be read once; durable on return. After any error but Unknown none of them is."""


class Advance(Protocol):
    """The positions of a batch, moved by compare-and-set: Fenced moves none of them, Unknown is no answer."""

    def advance(self, batch: Batch[Any]) -> None:
        """Move every position from the batch's start to its end if position and owner are as expected."""


class Progress(Advance, Protocol):
    """Positions that can be put back too."""

    def retreat(self, batch: Batch[Any]) -> None:
        """Move every position from the batch's end back to its start, because nothing of it was written."""


@runtime_checkable
class Ledger(Progress, Protocol):
    """Where positions are kept, with who may move them."""

    def done(self, batch: Batch[Any]) -> bool:
        """Is every position at the batch's end (True) or at its start (False)? Fenced otherwise. Locks nothing."""

    def positions(self, pipeline: str) -> Mapping[TopicPartition, int]:
        """What is stored for the pipeline, without taking anything over. Empty when nothing is."""

    def take_over(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Tenure:
        """Make `run` the owner of the partitions in `first`; its offsets count only where none is stored yet.

        On return no earlier owner can move these positions. May be repeated. Raises PositionLost where nothing is
        stored though the sink holds rows, TopicRecreated for another topic.
        """

    def renew(self, tenure: Tenure, run: UUID) -> Tenure:
        """The same owner under a new token, so that its own stragglers are fenced off. May be repeated; else Fenced."""


class Transaction(Sink[R_contra], Advance, Protocol[R_contra]):
    """Rows and positions that become visible together or not at all."""


@runtime_checkable
class AtomicSink(Sink[R_contra], Ledger, Protocol[R_contra]):
    """A sink that keeps the positions too, and can move both in one atomic step."""

    def transaction(self, batch: Batch[R_contra]) -> AbstractContextManager[Transaction[R_contra]]:
        """Commits on a clean exit, rolls back on an exception. A commit without an answer raises Unknown."""


Observer = Callable[[Step, Batch[Any]], None]


def nobody(_step: Step, _batch: Batch[Any]) -> None: ...


def at_most_once(batch: Batch[R], sink: Sink[R], progress: Progress, see: Observer) -> Landed:
    progress.advance(batch)
    see(Step.ADVANCED, batch)  # a crash here loses the batch
    try:
        landed = sink.write(batch)
    except FencepostError as trouble:
        put_back(batch, progress, trouble)
        raise
    see(Step.WRITTEN, batch)
    return landed


def put_back(batch: Batch[Any], progress: Progress, trouble: FencepostError) -> None:
    """Nothing was written, unless that is unknown. Raises Unknown where the batch is lost for all we know."""
    with suppress(Unknown, Unreachable):
        if not isinstance(trouble, Unknown):
            return progress.retreat(batch)
    raise Unknown(f"{trouble.message}; the position moved first: {batch} may be lost", trouble.remedy) from trouble


def at_least_once(batch: Batch[R], sink: Sink[R], progress: Advance, see: Observer) -> Landed:
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
    """Deliver one batch under the guarantee; the same batch again changes nothing and says "already"."""
    if ledger.done(batch):
        return Landed(rows=0, already=True)
    see(Step.STARTED, batch)
    try:
        match guarantee:
            case Guarantee.AT_MOST_ONCE:
                landed = at_most_once(batch, sink, ledger, see)
            case Guarantee.AT_LEAST_ONCE:
                landed = at_least_once(batch, sink, ledger, see)
            case Guarantee.EXACTLY_ONCE:
                landed = exactly_once(batch, sink, see)
    except (Fenced, Unknown, Unreachable, Refused) as trouble:
        if not arrived(batch, ledger) or (guarantee is Guarantee.AT_MOST_ONCE and not isinstance(trouble, Fenced)):
            raise
        return Landed(rows=0, already=True)
    see(Step.DELIVERED, batch)
    return landed


def arrived(batch: Batch[Any], ledger: Ledger) -> bool:
    """Did an attempt of our own land after all? Fenced where somebody else took over; False where nobody answers."""
    with suppress(Unreachable):
        return ledger.done(batch)
    return False
