"""The three words, the anomalies, and the one table that says which word allows which anomaly, and why."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Guarantee(StrEnum):
    """A declared delivery guarantee."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"

    @property
    def promise(self) -> str:
        return _PROMISES[self]


_PROMISES = {
    Guarantee.AT_MOST_ONCE: "never twice; may be lost",
    Guarantee.AT_LEAST_ONCE: "never lost; may be repeated",
    Guarantee.EXACTLY_ONCE: "never lost, never twice",
}


class Anomaly(StrEnum):
    """What can go wrong between a sender and a sink, by code."""

    LOST_BEFORE_LOG = "L1"
    LOST_BEFORE_SINK = "L2"
    DOUBLED_IN_LOG = "D1"
    DOUBLED_IN_SINK = "D2"
    DOUBLED_EFFECT = "D3"
    PHANTOM = "P"
    ABORTED_READ = "G1a"
    TORN_TRANSACTION = "G1b"
    REORDERED_IN_LOG = "O1"
    REORDERED_IN_SINK = "O2"
    CORRUPTED = "X"
    POSITION_WENT_BACK = "R"
    SPAN_GAP = "K-gap"
    SPAN_OVERLAP = "K-overlap"
    ZOMBIE_EFFECT = "Z"
    HANG = "H"
    UNDECIDED = "U"


class Ruling(StrEnum):
    """What an anomaly means for the verdict."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"
    UNDECIDED = "undecided"  # says nothing about the guarantee: the verdict stays open


class Rule(NamedTuple):
    """One row of the table: the ruling under each word, and why."""

    at_most_once: Ruling
    at_least_once: Ruling
    exactly_once: Ruling
    reason: str

    def under(self, guarantee: Guarantee) -> Ruling:
        match guarantee:
            case Guarantee.AT_MOST_ONCE:
                return self.at_most_once
            case Guarantee.AT_LEAST_ONCE:
                return self.at_least_once
            case Guarantee.EXACTLY_ONCE:
                return self.exactly_once


_YES, _NO, _OPEN = Ruling.ALLOWED, Ruling.FORBIDDEN, Ruling.UNDECIDED

ALLOWED: dict[Anomaly, Rule] = {
    Anomaly.LOST_BEFORE_LOG: Rule(_YES, _NO, _NO, "at-most-once does not wait for the log"),
    Anomaly.LOST_BEFORE_SINK: Rule(_YES, _NO, _NO, "a crash after the advance and before the write loses"),
    Anomaly.DOUBLED_IN_LOG: Rule(_NO, _YES, _NO, "a send whose answer was lost is repeated"),
    Anomaly.DOUBLED_IN_SINK: Rule(_NO, _YES, _NO, "a crash after the write and before the advance repeats"),
    Anomaly.DOUBLED_EFFECT: Rule(_NO, _YES, _NO, "a repeated event is applied again, even to the same row"),
    Anomaly.PHANTOM: Rule(_NO, _NO, _NO, "no guarantee covers rows that nobody sent"),
    Anomaly.ABORTED_READ: Rule(_NO, _NO, _NO, "only committed records are read"),
    Anomaly.TORN_TRANSACTION: Rule(_NO, _NO, _NO, "a transaction is visible whole or not at all"),
    Anomaly.REORDERED_IN_LOG: Rule(_YES, _YES, _NO, "a retry may overtake unless the producer is idempotent"),
    Anomaly.REORDERED_IN_SINK: Rule(_YES, _YES, _NO, "a repeated batch delivers earlier events again"),
    Anomaly.CORRUPTED: Rule(_NO, _NO, _NO, "an event that changed on the way is not that event"),
    Anomaly.POSITION_WENT_BACK: Rule(_NO, _YES, _NO, "what lies between is read again"),
    Anomaly.SPAN_GAP: Rule(_YES, _NO, _NO, "events between two spans were never read"),
    Anomaly.SPAN_OVERLAP: Rule(_NO, _YES, _NO, "events in two spans were read twice"),
    Anomaly.ZOMBIE_EFFECT: Rule(_NO, _YES, _NO, "a replaced owner's write repeats its successor's"),
    Anomaly.HANG: Rule(_OPEN, _OPEN, _OPEN, "no progress breaks no guarantee, and keeps none either"),
    Anomaly.UNDECIDED: Rule(_OPEN, _OPEN, _OPEN, "not drained before the deadline"),
}


def nearest(asked: Guarantee, possible: frozenset[Guarantee]) -> Guarantee | None:
    """The guarantee in `possible` closest to `asked`: a stronger one first, then losing nothing."""
    by_worth = (asked, Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE)
    return next((guarantee for guarantee in by_worth if guarantee in possible), None)
