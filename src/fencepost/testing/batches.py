"""Batches in one line, for the contract suites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from fencepost.delivery import Ledger
from fencepost.model import Batch, Span, Step, Tenure, TopicPartition

ORDERS = TopicPartition("orders", 0)
RETURNS = TopicPartition("returns", 0)
PIPELINE = "shop"


def owner(ledger: Ledger, *partitions: TopicPartition, start: int = 0) -> Tenure:
    """A new run takes over."""
    return ledger.take_over(PIPELINE, uuid4(), dict.fromkeys(partitions or (ORDERS,), start), {})


def batch(tenure: Tenure, start: int, end: int, rows: Any = ()) -> Batch[Any]:
    return Batch({ORDERS: Span(start, end)}, rows, tenure)


class Crash(BaseException):
    """The process is gone."""


def crash() -> None:
    raise Crash


def at(step: Step, action: Callable[[], object]) -> Callable[[Step, Batch[Any]], None]:
    """An observer that acts once, at one step: what another process does at that very moment."""
    waiting = [action]

    def see(seen: Step, _batch: Batch[Any]) -> None:
        if seen == step and waiting:
            waiting.pop()()

    return see
