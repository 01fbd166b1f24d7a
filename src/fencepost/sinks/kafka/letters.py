"""Dead letters as records: key, value, time and headers as they were, after two headers that say why and of what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from fencepost.model import Span, TopicPartition
from fencepost.rows.dead_letters import are_dead
from fencepost.sinks.kafka.outputs import ORIGIN, Record, Records, by_field, kept_time

REASON = "fencepost.reason"  # the header that says why a record was not delivered
LONGEST_REASON = 1_000  # characters: what is added to a record must not make it too large


@dataclass(frozen=True)
class Apart:
    """What a transaction is to write."""

    span: tuple[TopicPartition, Span]
    letters: pa.RecordBatch | None
    rows: Any  # as the store's own function takes them


def apart(rows: Any) -> tuple[pa.RecordBatch | None, Any]:
    """The dead letters, which come first where there are some, and the rest."""
    if isinstance(rows, list):
        return None, rows
    parts: Iterator[Any] = iter(rows)
    first = next(parts, None)
    if first is None:
        return None, iter(())
    if isinstance(first, pa.RecordBatch) and are_dead(first):
        return first, parts
    return None, chain([first], parts)


def letter_records(letters: pa.RecordBatch | None, topic: str) -> Iterable[Records]:
    """For this topic."""
    return by_field(_records(letters, topic))


def _records(letters: pa.RecordBatch | None, topic: str) -> Iterator[Record]:
    for letter in letters.to_pylist() if letters is not None else ():
        place = f"{letter['topic']}/{letter['partition']}/{letter['offset']}/0"
        own = [(one["key"], one["value"]) for one in letter["headers"] or ()]
        headers = [(REASON, letter["_dead"][:LONGEST_REASON].encode()), (ORIGIN, place.encode()), *own]
        yield letter["value"], letter["key"], topic, headers, None, kept_time(_millis(letter["timestamp"]))


def _millis(time: Any) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)
