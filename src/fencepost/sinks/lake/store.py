"""The store over a table whose commits carry the pipeline's document: rows and positions move in one commit.

Every change reads the newest document, decides by the fence, and commits the next one if that is still the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID

from fencepost import fence
from fencepost.errors import PositionLost, Unknown, Unreachable
from fencepost.fence import Stored
from fencepost.model import Batch, Landed, Span, Tenure, TopicPartition
from fencepost.sinks import changes
from fencepost.sinks.lake.document import Document

TRIES = 20  # against others that change the same pipeline's document at the same moment

Change = Callable[[Stored], Stored]


class Outrun(Exception):
    """Another commit of the same pipeline came first: nothing was committed."""


class LakeTable(Protocol):
    """A table, and the documents of pipelines in its commits. One thread at a time."""

    @property
    def name(self) -> str:
        """As people know it."""

    def document(self, pipeline: str) -> Document | None:
        """The newest one; None where no commit of the pipeline is known. Raises Unreachable.

        It is stale where the table went back to before that commit, or its rows were replaced.
        """

    def holds_rows(self) -> bool: ...

    def prepare(self, rows: Any) -> tuple[Landed, Any]:
        """What can be done before the commit, and what of the rows goes into it. Nothing is visible yet.

        What is prepared and never committed may leave files behind, which no table has: nobody can tell at once that
        no commit has them, so they stay until the table is cleaned up.
        """

    def commit(self, pipeline: str, before: Document | None, after: Document, rows: Any | None) -> None:
        """Rows and document become visible in one step, if `before` is the newest document still.

        Raises Outrun where it is not; Unknown where nobody answers; after any other error nothing is committed.
        """

    def close(self) -> None: ...


class LakeStore:
    """An atomic sink whose batches may have several spans. One thread at a time."""

    def __init__(self, table: LakeTable, guarantee: str | None = None) -> None:
        self.table = table
        self._guarantee = guarantee

    # -- the sink

    def write(self, batch: Batch[Any]) -> Landed:
        """Rows in a commit of their own, which moves no position: for the two guarantees that take two steps."""
        landed, rows = self.table.prepare(batch.rows)
        self._commit(batch.tenure.pipeline, lambda stored: stored, rows, batch.spans)
        return landed

    @contextmanager
    def transaction(self, batch: Batch[Any]) -> Iterator[LakeTransaction]:
        """Nothing is committed before its end."""
        transaction = LakeTransaction(self)
        yield transaction
        if transaction.moved is not None:
            self._commit(batch.tenure.pipeline, _moves(transaction.moved), transaction.rows, batch.spans)

    # -- the ledger

    def stored(self, pipeline: str) -> Stored:
        document = self.table.document(pipeline)
        return document.stored if document else {}

    def _sound(self, pipeline: str) -> Stored:
        document = self.table.document(pipeline)
        self._require_kept(document)
        return document.stored if document else {}

    def positions(self, pipeline: str) -> Mapping[TopicPartition, int]:
        return {at: held.position for at, held in self.stored(pipeline).items()}

    def done(self, batch: Batch[Any]) -> bool:
        return fence.landed(self._sound(batch.tenure.pipeline), batch)

    def advance(self, batch: Batch[Any]) -> None:
        """A span that is empty stores the position again."""
        self._commit(batch.tenure.pipeline, _moves(batch))

    def retreat(self, batch: Batch[Any]) -> None:
        self._commit(batch.tenure.pipeline, lambda stored: changes.retreated(stored, batch))

    def take_over(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Tenure:
        def owned(stored: Stored) -> Stored:
            self._require_entry(pipeline, stored, topic_ids)
            return changes.taken_over(stored, run, first, topic_ids)

        return changes.tenure_of(pipeline, run, self._commit(pipeline, owned), first)

    def begin(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> None:
        def begun(stored: Stored) -> Stored:
            self._require_entry(pipeline, stored, topic_ids)
            return changes.begun(stored, run, first, topic_ids)

        if first.keys() - self.stored(pipeline).keys():
            self._commit(pipeline, begun)

    def renew(self, tenure: Tenure, run: UUID) -> Tenure:
        held = self._commit(tenure.pipeline, lambda stored: changes.renewed(stored, tenure, run))
        return tenure.renewed(run, {at: held[at].position for at in tenure.positions})

    def require_same(self, pipeline: str, topic_ids: Mapping[str, str]) -> None:
        fence.require_same_topics(pipeline, self.stored(pipeline), topic_ids)

    def set_positions(
        self,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._commit(
            pipeline, lambda stored: changes.set_by_hand(stored, positions, topic_ids, kept or {}), by_hand=True
        )

    def close(self) -> None:
        self.table.close()

    def _require_kept(self, document: Document | None) -> None:
        if document is not None and document.stale:
            raise PositionLost(
                f"table {self.table.name!r}: {document.stale}: the stored positions say nothing of the rows that are "
                "there now",
                "choose where to continue with `fencepost positions set`, or use an empty table",
            )

    def _require_entry(self, pipeline: str, stored: Stored, topic_ids: Mapping[str, str]) -> None:
        fence.require_same_topics(pipeline, stored, topic_ids)
        if not stored and self.table.holds_rows():
            raise PositionLost(
                f"no position is stored for pipeline {pipeline!r}, but table {self.table.name!r} holds rows",
                "choose where to continue with `fencepost positions set`, or use an empty table",
            )

    # -- compare and set

    def _commit(
        self,
        pipeline: str,
        change: Change,
        rows: Any | None = None,
        spans: Mapping[TopicPartition, Span] | None = None,
        by_hand: bool = False,
    ) -> Stored:
        """What is stored now. Raises what `change` raises, and then nothing is committed."""
        for _ in range(TRIES):
            before = self.table.document(pipeline)
            if not by_hand:
                self._require_kept(before)
            stored = change(before.stored if before else {})
            number = before.number + 1 if before else 1
            after = Document(number, stored, self._guarantee, spans if rows is not None and spans else {})
            try:
                self.table.commit(pipeline, before, after, rows)
            except Outrun:
                continue
            except Unknown:
                if not self._is_newest(pipeline, after):
                    raise
            return stored
        raise Unreachable(f"table {self.table.name!r}: others change the positions of {pipeline!r} all the time")

    def _is_newest(self, pipeline: str, document: Document) -> bool:
        try:
            found = self.table.document(pipeline)
        except Unreachable:
            return False
        return found is not None and found.commit == document.commit


class LakeTransaction:
    """Rows and an advance that wait for their commit."""

    def __init__(self, store: LakeStore) -> None:
        self._store = store
        self.rows: Any | None = None
        self.moved: Batch[Any] | None = None

    def write(self, batch: Batch[Any]) -> Landed:
        landed, self.rows = self._store.table.prepare(batch.rows)
        return landed

    def advance(self, batch: Batch[Any]) -> None:
        fence.require_start(self._store.stored(batch.tenure.pipeline), batch)
        self.moved = batch


def _moves(batch: Batch[Any]) -> Change:
    return lambda stored: changes.advanced(stored, batch, datetime.now(UTC))
