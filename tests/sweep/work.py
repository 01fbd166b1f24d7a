"""What one writer process is to do: it travels on the process's command line."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from fencepost.delivery import Observer, nobody
from fencepost.guarantee import Guarantee
from fencepost.lab.crash import CrashPoint, MidCopy
from fencepost.model import Span, TopicPartition
from fencepost.sinks.postgres import PostgresSettings

ORDERS = TopicPartition("orders", 0)
SPAN = 1000  # events in one
PART = 250  # in one record batch
EVENTS = 3 * SPAN


class Naive(StrEnum):
    """Writers as they are often built: rows in one transaction, the position in another, no owner."""

    AUTOCOMMIT = "autocommit"  # every record batch commits by itself; after an error, again from the position
    RETRY = "retry"  # a span in one transaction; after an error, again from the position
    GIVE_UP = "give-up"  # the same, but an error is taken for "it will have landed"


@dataclass(frozen=True)
class Work:
    """Carry the events that are left, in spans of a thousand, dying or stalling where it says."""

    settings: PostgresSettings
    how: Guarantee | Naive
    crash: CrashPoint | MidCopy | None = None
    renews: bool = True  # after an error goes on under a new token, as a pipeline does; else ends with the error
    asks: bool = True  # after an error looks at the position, as `deliver` does; else `exactly_once` alone

    @property
    def see(self) -> Observer:
        return self.crash if isinstance(self.crash, CrashPoint) else nobody

    def rows(self, span: Span) -> Iterator[pa.RecordBatch]:
        return self.crash.rows(parts(span)) if isinstance(self.crash, MidCopy) else parts(span)

    def packed(self) -> str:
        return pickle.dumps(self).hex()

    @staticmethod
    def unpacked(text: str) -> Work:
        work = pickle.loads(bytes.fromhex(text))  # noqa: S301 (our own bytes)
        assert isinstance(work, Work)
        return work


def parts(span: Span) -> Iterator[pa.RecordBatch]:
    """The numbered events of a span, in several record batches."""
    for start in range(span.start, span.end, PART):
        yield pa.RecordBatch.from_pydict({"id": pa.array(range(start, min(start + PART, span.end)), pa.int64())})


def next_span(position: int) -> Span:
    return Span(position, min(position + SPAN, EVENTS))
