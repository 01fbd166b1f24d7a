"""The nouns: a partition, a span of it, an owner's term, a batch, and what became of it. No I/O, no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

EVENT_ID = "fencepost.id"  # the header that names an event: its producer and sequence, or a key of the caller's
EVENT_CHECKSUM = "fencepost.crc32"  # the header with its value's checksum: eight hexadecimal digits

MOST_TOKENS = 1_000  # that a run remembers: one for each trouble it went on after
R_co = TypeVar("R_co", covariant=True)
"""What a sink takes: the rows of one partition, in offset order and read once, or a whole DataFrame."""


class TopicPartition(NamedTuple):
    """Kafka's unit of order and of ownership."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets [start, end) of one partition. Not a count: markers and compaction leave holes in it."""

    start: int  # the position before: the next offset to read
    end: int  # the position after

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"a span goes from an offset of 0 or more to the same or a later one: {self}")

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"


@dataclass(frozen=True)
class Tenure:
    """One owner's term over some partitions. Only a ledger makes one."""

    pipeline: str
    token: UUID  # of the owner: every advance compares it
    epoch: int  # which owner this is: each one that takes partitions over has a higher number than the last
    positions: Mapping[TopicPartition, int]  # the next offset to read, as stored when the term began
    earlier: tuple[UUID, ...] = ()  # tokens that the same run had before: a failover may bring one of them back

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", MappingProxyType(dict(self.positions)))

    def __reduce__(self) -> tuple[object, ...]:
        return Tenure, (self.pipeline, self.token, self.epoch, dict(self.positions), self.earlier)

    def renewed(self, token: UUID, positions: Mapping[TopicPartition, int], epoch: int | None = None) -> Tenure:
        """The same owner's under a new token."""
        earlier = (*self.earlier, self.token)[-MOST_TOKENS:]
        return Tenure(self.pipeline, token, self.epoch if epoch is None else epoch, positions, earlier)


@dataclass(frozen=True)
class StreamBatch:
    """A stream batch, of a stream that keeps state: what a ledger keeps of the last one that landed."""

    query: str  # Spark's id of the stream, which its checkpoint holds
    number: int
    offsets: str  # where each of its sources stood at its end: JSON, as in Spark's log
    watermark: int  # of event time, in milliseconds: what was behind it came too late for this batch
    next_watermark: int  # for the batch after it
    checkpoint: str  # the name of the folder of the owner who landed it


@dataclass(frozen=True)
class StreamStep:
    """From the last batch of a stream that landed to the next one: it moves with the positions."""

    before: StreamBatch
    after: StreamBatch


@dataclass(frozen=True)
class Batch(Generic[R_co]):
    """What is written and advanced together: spans, the rows that came of them, and whose term it is."""

    spans: Mapping[TopicPartition, Span]  # exactly one for the direct path; all partitions where a step is given
    rows: R_co
    tenure: Tenure
    step: StreamStep | None = None  # of a stream that keeps state: its number decides, because spans may be empty

    def only_span(self) -> tuple[TopicPartition, Span]:
        """The one span of a batch that goes through the direct path."""
        ((partition, span),) = self.spans.items()
        return partition, span

    @property
    def noted(self) -> Mapping[TopicPartition, Span]:
        """All spans; of a stream that keeps state those that hold records, or else the first: its rows need a place."""
        if self.step is None:
            return self.spans
        holding = {at: span for at, span in self.spans.items() if span.start < span.end}
        return holding or {at: self.spans[at] for at in sorted(self.spans)[:1]}

    def __str__(self) -> str:
        spans = ", ".join(f"{partition} {span}" for partition, span in sorted(self.spans.items()))
        return f"{self.tenure.pipeline}: {spans}{f', batch {self.step.after.number}' if self.step else ''}"


@dataclass(frozen=True, slots=True)
class Landed:
    """What became of a batch that was delivered."""

    rows: int  # written by this very delivery
    dead: int = 0  # dead-lettered by this delivery: records that cannot be stored
    already: bool = False  # an earlier attempt had landed: nothing was written now


class Mode(StrEnum):
    """What becomes of an event whose key has a row already."""

    APPEND = "append"  # another row: there are no keys
    UPSERT = "upsert"  # the newest event of a key has the row
    DEDUPE = "dedupe"  # the first one keeps it


@dataclass(frozen=True)
class Merge:
    """How the rows of one key become one row. It crosses to Spark's workers."""

    mode: Mode  # upsert or dedupe
    key: tuple[str, ...]  # the columns that name a row
    order_by: str | None = None  # upsert: the row with the highest value in this column wins, before any offset
    deletes: bool = False  # upsert: an event without a value deletes the row of its key


class Step(StrEnum):
    """The moments between which a process can die. An observer is told right after each."""

    STAGED = "staged"  # a task's rows are in the stage, where the table is written by way of one
    STARTED = "started"  # the position stands at the batch's start
    ADVANCED = "advanced"
    WRITTEN = "written"
    DELIVERED = "delivered"  # everything is durable, and nobody knows yet


class Outcome(StrEnum):
    """What became of one event that was sent."""

    ACKED = "acked"  # it is in the log
    UNKNOWN = "unknown"  # it may be in the log, once or not at all
    REFUSED = "refused"  # it is not in the log
    ABORTED = "aborted"  # its transaction was aborted: in the log perhaps, but never to be read
