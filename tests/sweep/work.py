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
KEYS = 1500  # where rows have keys: some come in two spans, others in one


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
    partition: TopicPartition = ORDERS
    events: int = EVENTS
    keys: int = KEYS
    renews: bool = True  # after an error goes on under a new token, as a pipeline does; else ends with the error
    asks: bool = True  # after an error looks at the position, as `deliver` does; else `exactly_once` alone

    @property
    def see(self) -> Observer:
        return self.crash if isinstance(self.crash, CrashPoint) else nobody

    def rows(self, span: Span) -> Iterator[pa.RecordBatch]:
        made = keyed_parts(self.partition, span, self.keys) if self.settings.merge else parts(span)
        return self.crash.rows(made) if isinstance(self.crash, MidCopy) else made

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


def key(partition: TopicPartition, offset: int, keys: int = KEYS) -> int:
    """Both partitions have all of the keys, each in an order of its own."""
    spread = offset * 7919 % keys
    return spread if partition == ORDERS else keys - 1 - spread


def keyed_parts(partition: TopicPartition, span: Span, keys: int) -> Iterator[pa.RecordBatch]:
    """The same with keys, and with where each row came from."""
    for part in parts(span):
        offsets = part.column("id")
        zeros = pa.array([0] * len(offsets), pa.int32())
        columns = {
            "id": pa.array([key(partition, offset, keys) for offset in offsets.to_pylist()], pa.int64()),
            "_topic": pa.array([partition.topic] * len(offsets)),
            "_partition": pa.array([partition.partition] * len(offsets), pa.int32()),
            "_offset": offsets,
            "_n": zeros,
        }
        yield pa.RecordBatch.from_pydict(columns)


def next_span(position: int, events: int = EVENTS) -> Span:
    return Span(position, min(position + SPAN, events))
