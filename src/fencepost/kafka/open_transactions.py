"""Transactions as their coordinators and the leaders of partitions know them: listed, described, found hanging, ended.

A hanging one: a leader keeps it open (`describe_producers` has a start offset), and no coordinator knows of it, or one
says that it is over. Nobody will ever end it, and readers of committed records wait at its first record for ever.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fencepost.errors import Refused, Unknown, Unreachable, Usage
from fencepost.kafka.batch_headers import moment
from fencepost.kafka.errors import Missing
from fencepost.kafka.wire import Wire
from fencepost.machine.plain_json import iso
from fencepost.model import TopicPartition

OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")  # states in which it still holds readers back
SETTLE_SECONDS = 2.0  # between a marker on its way and a leader that has written it
_LOOK_SECONDS = 0.5
LONGEST_ID = 32_000  # bytes
_INTERNAL = "__transaction_state"


@dataclass(frozen=True)
class TransactionSummary:
    """One line in the list of transactions."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int


@dataclass(frozen=True)
class TransactionDescription:
    """One transactional id, as its coordinator knows it."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    coordinator: int
    timeout_ms: int
    started_at: datetime | None  # None: none is open
    partitions: tuple[TopicPartition, ...]  # with records of the open one

    @property
    def open(self) -> bool:
        return self.state in OPEN

    def age(self, now: datetime) -> float | None:
        """Seconds since it began."""
        return (now - self.started_at).total_seconds() if self.started_at and self.open else None

    def as_json(self, now: datetime) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "state": self.state,
            "open": self.open,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "coordinator": self.coordinator,
            "timeout_ms": self.timeout_ms,
            "started_at": iso(self.started_at),
            "age_seconds": self.age(now),
            "overdue": self.overdue(now),
            "partitions": [{"topic": at.topic, "partition": at.partition} for at in self.partitions],
        }

    def overdue(self, now: datetime) -> bool:
        """Is it open for longer than its own timeout?"""
        age = self.age(now)
        return age is not None and age * 1000 > self.timeout_ms


@dataclass(frozen=True)
class OpenProducer:
    """A producer that a leader takes for being inside a transaction."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int  # of its transaction there: readers of committed records get no further
    last_timestamp: datetime  # of its newest record
    coordinator_epoch: int = field(default=-1, compare=False)

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "start_offset": self.start_offset,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "last_timestamp": iso(self.last_timestamp),
        }


def list_transactions(wire: Wire) -> list[TransactionSummary]:
    """Every transactional id that a coordinator remembers, the open ones first."""
    nodes = wire.nodes()  # kafka-python itself would ask those of some minutes ago
    answer = wire.ask(lambda admin: admin.list_transactions(broker_ids=nodes), "the transactions")
    found = (
        TransactionSummary(one.transactional_id, one.state.value, one.producer_id, node)
        for node, listed in answer.items()
        for one in listed
    )
    return sorted(found, key=lambda one: (one.state not in OPEN, one.transactional_id))


def describe_transactions(wire: Wire, ids: Iterable[str]) -> list[TransactionDescription]:
    """Each of them. Raises Missing where a coordinator knows none of that name."""
    wanted = list(ids)
    if any(not 0 < len(one.encode(errors="replace")) <= LONGEST_ID for one in wanted):
        raise Usage("that is no transactional.id", "see `fencepost txn list`")
    subject = f"transactional.id {wanted[0]}" if len(wanted) == 1 else "the transactions"
    try:
        answer = wire.ask(lambda admin: admin.describe_transactions(wanted), subject) if wanted else {}
    except Missing as error:
        raise Missing(error.message, "see `fencepost txn list`") from error
    return [_described(id_, one) for id_, one in sorted(answer.items())]


def _described(id_: str, one: Any) -> TransactionDescription:
    began = one.transaction_start_time_ms
    return TransactionDescription(
        id_,
        one.state.value,
        one.producer_id,
        one.producer_epoch,
        one.coordinator_id,
        one.transaction_timeout_ms,
        _time(began) if began >= 0 else None,
        tuple(sorted(TopicPartition(at.topic, at.partition) for at in one.topic_partitions)),
    )


def open_transactions(wire: Wire) -> list[TransactionDescription]:
    """Those that are open now, the oldest first."""
    listed = [one.transactional_id for one in list_transactions(wire) if one.state in OPEN]
    try:
        found = describe_transactions(wire, listed)
    except Missing:  # one has expired in between
        return open_transactions(wire)
    return sorted(
        (one for one in found if one.open), key=lambda one: one.started_at or datetime.max.replace(tzinfo=UTC)
    )


def open_producers(wire: Wire, partitions: Iterable[TopicPartition]) -> list[OpenProducer]:
    """Who is inside a transaction there, as the leaders say."""
    from kafka import TopicPartition as WirePartition

    wanted = [WirePartition(*at) for at in partitions]
    subject = f"{wanted[0].topic}/{wanted[0].partition}" if len(wanted) == 1 else "one of the partitions"
    answer = wire.ask(lambda admin: admin.describe_producers(wanted), subject) if wanted else {}
    return sorted(
        (
            OpenProducer(
                TopicPartition(at.topic, at.partition),
                one.producer_id,
                one.producer_epoch,
                one.current_transaction_start_offset,
                _time(one.last_timestamp),
                one.coordinator_epoch,
            )
            for at, state in answer.items()
            for one in state.active_producers
            if one.current_transaction_start_offset >= 0
        ),
        key=lambda one: (one.partition, one.start_offset),
    )


def find_hanging(
    wire: Wire, partitions: Iterable[TopicPartition], settle: float = SETTLE_SECONDS
) -> list[OpenProducer]:
    """Open producers whose transaction no coordinator keeps open, in two looks `settle` apart.

    One that ends, or one that begins, in the middle of a look may seem so; it does not in the second.
    """
    suspects = _unknown_to_coordinators(wire, list(partitions))
    if not suspects:
        return []
    deadline = time.monotonic() + settle
    while suspects and time.monotonic() < deadline:
        time.sleep(min(_LOOK_SECONDS, settle))
        again = set(_unknown_to_coordinators(wire, {one.partition for one in suspects}))
        suspects = [one for one in suspects if one in again]
    return suspects


def _unknown_to_coordinators(wire: Wire, partitions: Iterable[TopicPartition]) -> list[OpenProducer]:
    open_there = open_producers(wire, [at for at in partitions if at.topic != _INTERNAL])
    if not open_there:
        return []
    known = {(one.producer_id, at) for one in open_transactions(wire) for at in one.partitions}
    return [one for one in open_there if (one.producer_id, one.partition) not in known]


def find_open(wire: Wire, at: TopicPartition, producer_id: int | None, start_offset: int | None) -> OpenProducer:
    """The one open transaction of a partition that is meant. Raises Usage where there is none, or several."""
    there = [
        one
        for one in open_producers(wire, [at])
        if producer_id in (None, one.producer_id) and start_offset in (None, one.start_offset)
    ]
    if not there:
        raise Usage(f"{at} has no such open transaction", "see `fencepost txn list --open`")
    if len(there) > 1:
        offsets = ", ".join(str(one.start_offset) for one in there)
        raise Usage(f"{at} has several open transactions, which begin at {offsets}", "name one by --start-offset")
    return there[0]


def owner_of(wire: Wire, open_: OpenProducer) -> TransactionDescription | None:
    """The transaction that a coordinator keeps open there: its producer may be alive. None: it hangs."""
    known = (one for one in open_transactions(wire) if one.producer_id == open_.producer_id)
    return next((one for one in known if open_.partition in one.partitions), None)


def require_hanging(wire: Wire, open_: OpenProducer) -> None:
    """Raises Usage where a coordinator still keeps it open, or where it ends while we look.

    Its producer keeps id and epoch: behind a commit in between, the marker would hit the next transaction.
    """
    require_coordinators(wire)
    if owner := owner_of(wire, open_):
        said = f"transactional.id {owner.transactional_id} ({owner.state}) owns the transaction at {open_.start_offset}"
        timeout = f"{owner.timeout_ms / 1000:,.0f} s"
        raise Usage(
            f"{said} of {open_.partition}: its producer may be alive, and would hear nothing of an abort",
            f"end that producer, or wait for its timeout of {timeout}; --live aborts it all the same",
        )
    if open_ not in find_hanging(wire, [open_.partition]):
        raise _ended(open_)


def require_open(wire: Wire, open_: OpenProducer) -> None:
    """Raises Usage where it has ended since it was found."""
    if open_ not in open_producers(wire, [open_.partition]):
        raise _ended(open_)


def _ended(open_: OpenProducer) -> Usage:
    return Usage(
        f"the transaction at {open_.start_offset} of {open_.partition} has just ended",
        "nothing is to be done; `fencepost txn list --open` shows those that are open now",
    )


def require_coordinators(wire: Wire) -> None:
    """Raises Unreachable where a coordinator is missing: what it keeps open would seem to hang."""
    for topic in wire.ask(lambda admin: admin.describe_topics([_INTERNAL]), "the coordinators"):
        if any(part["leader_id"] < 0 for part in topic["partitions"]):
            raise Unreachable(
                "a coordinator of transactions is missing: whether a transaction hangs is not known",
                "check which broker is missing, and try again",
            )


def abort_hanging(wire: Wire, open_: OpenProducer) -> None:
    """Write an abort marker: what it wrote there will never be read by readers of committed records.

    On return the leader keeps it open no longer. Of a live one the owner hears nothing, and its commit will say that
    all is well: ask `owner_of` first. Raises Refused, Unknown where no answer came.
    """
    from kafka.admin._transactions import AbortTransactionSpec

    spec = AbortTransactionSpec(open_.partition, open_.producer_id, open_.producer_epoch, open_.coordinator_epoch)
    try:
        wire.tell(
            lambda admin: admin.abort_transaction(spec), f"the transaction at {open_.start_offset} of {open_.partition}"
        )
    except Unreachable as error:
        raise Unknown(error.message, "look again with `fencepost txn find-hanging` before you repeat it") from error
    if any(one == open_ for one in open_producers(wire, [open_.partition])):
        raise Refused(f"{open_.partition} is still held by producer {open_.producer_id}", "see the brokers' logs")


def holders(
    descriptions: Iterable[TransactionDescription], producers: Iterable[OpenProducer]
) -> Mapping[TopicPartition, list[tuple[OpenProducer, TransactionDescription | None]]]:
    """By partition who holds its last stable offset back, the first in the log first; with no description: hanging."""
    known = {(one.producer_id, at): one for one in descriptions for at in one.partitions}
    found: dict[TopicPartition, list[tuple[OpenProducer, TransactionDescription | None]]] = defaultdict(list)
    for one in sorted(producers, key=lambda one: (one.partition, one.start_offset)):
        found[one.partition].append((one, known.get((one.producer_id, one.partition))))
    return found


def _time(ms: int) -> datetime:
    return moment(max(ms, 0)) or datetime.max.replace(tzinfo=UTC)
