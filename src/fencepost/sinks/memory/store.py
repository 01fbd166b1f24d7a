"""A store in memory with the manners of a database: for users' own tests, and for ours of the idea itself.

Several `MemoryStore` handles over one `Memory` behave like several connections to one database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any
from uuid import UUID

from fencepost.errors import PositionLost
from fencepost.model import Batch, Landed, Tenure, TopicPartition
from fencepost.sinks.memory.ledger import MemoryLedger, Positions

Rows = Iterable[Any]


@dataclass
class Memory:
    """What lasts when every handle is gone: committed rows and positions."""

    rows: list[Any] = field(default_factory=list)
    positions: Positions = field(default_factory=dict)
    lock: RLock = field(default_factory=RLock)


class MemorySink:
    """Rows in a list, and nothing else: a sink that keeps no positions, and so cannot be exactly-once."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def write(self, batch: Batch[Rows]) -> Landed:
        rows = list(batch.rows)  # read to the end first: an input that is cut off leaves nothing
        self.rows.extend(rows)
        return Landed(rows=len(rows))


class MemoryStore(MemoryLedger):
    """An atomic sink: rows and positions in one memory, moved in one step."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        super().__init__(self.memory.positions, self.memory.lock)

    def write(self, batch: Batch[Rows]) -> Landed:
        return MemorySink(self.memory.rows).write(batch)

    def take_over(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Tenure:
        with self.memory.lock:
            if self.memory.rows and not self.positions(pipeline):
                raise PositionLost(
                    f"no position is stored for pipeline {pipeline!r}, but the sink holds rows",
                    "set the positions yourself, if you know where those rows end",
                )
            return super().take_over(pipeline, run, first, topic_ids)

    @contextmanager
    def transaction(self, _batch: Batch[Rows]) -> Iterator[MemoryTransaction]:
        transaction = MemoryTransaction(self)
        yield transaction
        self._commit(transaction)

    def _commit(self, transaction: MemoryTransaction) -> None:
        with self.memory.lock:
            for batch in transaction.advances:
                super().advance(batch)  # raises, before a row is visible, where somebody else went first
            self.memory.rows.extend(transaction.rows)


class MemoryTransaction(MemorySink):
    """Rows and advances that wait for their commit."""

    def __init__(self, ledger: MemoryLedger) -> None:
        super().__init__(rows=[])
        self._ledger = ledger
        self.advances: list[Batch[Any]] = []

    def advance(self, batch: Batch[Any]) -> None:
        self._ledger.require_start(batch)
        self.advances.append(batch)
