"""Transactions: which are open, which hang, and who holds readers of committed records back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fencepost.errors import Usage
from fencepost.kafka.names import require_topic
from fencepost.kafka.open_transactions import (
    OpenProducer,
    TransactionDescription,
    TransactionSummary,
    abort_hanging,
    find_open,
    holders,
    require_hanging,
)
from fencepost.kafka.wire import Wire
from fencepost.model import TopicPartition
from fencepost.web.pages.page import Shown
from fencepost.web.state import State
from fencepost.web.tables import Asked, Columns, arranged

COLUMNS: Columns[TransactionSummary] = {
    "id": lambda one: one.transactional_id,
    "state": lambda one: one.state,
    "producer": lambda one: one.producer_id,
    "coordinator": lambda one: one.coordinator,
}


@dataclass(frozen=True)
class Holding:
    """Who holds the last stable offset of a partition back."""

    partition: TopicPartition
    producer: OpenProducer
    transaction: TransactionDescription | None  # None: no coordinator knows of it
    gap: int | None  # offsets that readers of committed records wait for

    @property
    def name(self) -> str:
        return (
            self.transaction.transactional_id if self.transaction else f"producer {self.producer.producer_id}, unknown"
        )


def holding(state: State) -> list[Holding]:
    """The first in the log of each partition that is held, the widest gap first."""
    open_ = state.open_transactions().require()
    hanging = state.hanging().value or []
    gaps = state.gaps({at for one in open_ for at in one.partitions} | {one.partition for one in hanging})
    found = holders(open_, gaps.producers)
    rows = [Holding(at, *first[0], gaps.offsets.get(at)) for at, first in found.items()]
    return sorted(rows, key=lambda one: (-(one.gap or 0), one.partition))


def transactions(state: State, asked: Asked) -> Shown:
    listed = state.transactions()
    table = arranged(listed.value or listed.require(), COLUMNS, asked, "state", descending=True)
    return Shown(
        "transactions.html",
        {
            "listed": listed,
            "table": table,
            "open": state.open_transactions(),
            "hanging": state.hanging(),
            "holding": holding(state),
            "at": datetime.now(UTC),
        },
    )


def transaction(state: State, asked: Asked) -> Shown:
    answer = state.transaction(asked.query.get("id", ""))
    return Shown(
        "transaction.html", {"answer": answer, "one": answer.value or answer.require(), "at": datetime.now(UTC)}
    )


def transactions_facts(state: State) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "transactions": state.transactions().require(),
        "open": [one.as_json(now) for one in state.open_transactions().require()],
        "holding": [
            {**one.producer.as_json(), "gap": one.gap,
             "transactional_id": one.transaction.transactional_id if one.transaction else None}
            for one in holding(state)
        ],
    }  # fmt: skip


def hanging_facts(state: State) -> dict[str, Any]:
    return {"hanging": [one.as_json() for one in state.find_hanging().require()]}


def transaction_facts(state: State, id_: str) -> dict[str, Any]:
    return state.transaction(id_).require().as_json(datetime.now(UTC))


def abort(state: State, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Of one that hangs; a live one is refused here. Raises Usage, Refused, Unknown."""
    at = TopicPartition(require_topic(str(asked.get("topic", ""))), _number(asked, "partition"))
    start = _number(asked, "start_offset")

    def end(wire: Wire) -> OpenProducer:
        meant = find_open(wire, at, None, start)
        require_hanging(wire, meant)
        abort_hanging(wire, meant)
        return meant

    ended = state.connections.wire(end)
    state.answers.forget("hanging", "open", "transactions")
    state.find_hanging()
    return {"aborted": True, **ended.as_json(), "message": f"aborted: {at} is not held any more"}


def _number(asked: Mapping[str, Any], name: str) -> int:
    given = str(asked.get(name, ""))
    if not (given.isascii() and given.isdecimal() and len(given) < 20):
        raise Usage(f"{name} is {given[:40]!r}", "give a whole number that is not negative")
    return int(given)
