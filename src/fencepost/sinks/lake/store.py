"""The store over a table whose commits carry the pipeline's document: rows and positions move in one commit.

Every change reads the newest document, decides by the fence, and commits the next one if that is still the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from fencepost import fence
from fencepost.errors import PositionLost, Unknown, Unreachable
from fencepost.fence import Stored
from fencepost.model import Batch, Landed, Span, StreamBatch, Tenure, TopicPartition
from fencepost.sinks import changes
from fencepost.sinks.changes import Kept
from fencepost.sinks.lake import commits, streams
from fencepost.sinks.lake.commits import Carried
from fencepost.sinks.lake.document import Document

if TYPE_CHECKING:
    import pyarrow as pa

TRIES = 20  # against others that change the pipeline's document, or what its rows were merged with

Change = Callable[[Kept], Kept]
Letters = Mapping[TopicPartition, "pa.RecordBatch"]


class Outrun(Exception):
    """Another commit of the same pipeline came first: nothing was committed."""


class Prepared(Protocol):
    """What of a batch's rows goes into a commit. Nothing of it is visible yet."""

    @property
    def rows(self) -> int:
        """How many they are: a commit that was outrun may have made other ones of them."""

    def counts(self, spans: Mapping[TopicPartition, Span]) -> Mapping[TopicPartition, int] | None:
        """How many came of each partition; None where nobody can tell."""


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

    def bury(self, letters: Letters) -> None:
        """Dead letters, each place once; durable on return. Raises Unreachable."""

    def prepare(self, pipeline: str, rows: Any) -> Prepared | None:
        """What can be done before the commit; None where there is no row. Nothing is visible yet.

        What is prepared and never committed may leave files behind, which no table has: nobody can tell at once that
        no commit has them, so they stay until the table is cleaned up.
        """

    def commit(self, pipeline: str, before: Document | None, after: Document, rows: Any | None) -> None:
        """Rows and document become visible in one step, if `before` is the newest document still.

        Raises Outrun where it is not, or where `rows` had to be made again; Unknown where nobody answers; after any
        other error nothing is committed.
        """

    def close(self) -> None: ...


@dataclass(frozen=True)
class Counted:
    """Rows that were written, or none: their number is known."""

    rows: Prepared | None


class LakeStore:
    """An atomic sink whose batches may have several spans. One thread at a time."""

    def __init__(self, table: LakeTable, guarantee: str | None = None) -> None:
        self.table = table
        self.letters: Letters = {}  # of the batch that is to come
        self._guarantee = guarantee
        self._wrote: tuple[Batch[Any] | None, Counted | None] = (None, None)  # the last write, and of which batch

    # -- the sink

    def write(self, batch: Batch[Any]) -> Landed:
        """Rows in a commit of their own, which moves no position: for the two guarantees that take two steps."""
        self.bury()
        rows = self.table.prepare(batch.tenure.pipeline, batch.rows)
        self._commit(batch.tenure.pipeline, lambda kept: kept, rows)
        self._wrote = (batch, Counted(rows))
        return Landed(rows.rows if rows else 0, sum(self.dead.values()))

    @property
    def dead(self) -> dict[TopicPartition, int]:
        """How many dead letters each partition has in the batch that is to come."""
        return {at: rows.num_rows for at, rows in self.letters.items()}

    def bury(self) -> None:
        if any(self.dead.values()):
            self.table.bury(self.letters)

    @contextmanager
    def transaction(self, batch: Batch[Any]) -> Iterator[LakeTransaction]:
        """Nothing is committed before its end; dead letters come first, to a table of their own."""
        transaction = LakeTransaction(self)
        yield transaction
        if transaction.moved is not None:
            self.bury()
            rows = transaction.rows
            self._commit(batch.tenure.pipeline, _moves(transaction.moved), rows, self._carried(batch, Counted(rows)))
            transaction.committed()

    def _carried(self, batch: Batch[Any], wrote: Counted | None) -> Callable[[], Carried]:
        """What a commit is to say of the batch, once it is known how its rows were merged."""

        def carried() -> Carried:
            spans, rows = dict(batch.noted), wrote.rows if wrote else None
            total = rows.rows if rows else 0
            counts = rows.counts(spans) if rows and not batch.step else commits.of_the_first(spans, total)
            told = Carried(spans, None, None, self.dead)
            return replace(told, wrote=total, rows=counts) if wrote else told

        return carried

    # -- the ledger

    def stored(self, pipeline: str) -> Stored:
        document = self.table.document(pipeline)
        return document.stored if document else {}

    def kept(self, pipeline: str) -> Kept:
        """Raises PositionLost where it says nothing of the rows that are there now."""
        document = self.table.document(pipeline)
        self._require_kept(document)
        return document.kept if document else Kept({})

    def landed(self, pipeline: str, runs: Collection[UUID]) -> Landed:
        """What these runs committed, as far as it was counted."""
        document = self.table.document(pipeline)
        return commits.landed(document.stored, document.total, document.begun, runs) if document else Landed(0)

    def positions(self, pipeline: str) -> Mapping[TopicPartition, int]:
        return {at: held.position for at, held in self.stored(pipeline).items()}

    def done(self, batch: Batch[Any]) -> bool:
        kept = self.kept(batch.tenure.pipeline)
        return fence.batch_landed(kept.stored, kept.stream, batch)

    def advance(self, batch: Batch[Any]) -> None:
        """A span that is empty stores the position again."""
        of, wrote = self._wrote  # at most once it is another batch's
        self._commit(batch.tenure.pipeline, _moves(batch), carried=self._carried(batch, wrote if of is batch else None))

    def retreat(self, batch: Batch[Any]) -> None:
        def undone() -> Carried:
            return Carried(dict(batch.noted), back=True)

        self._commit(batch.tenure.pipeline, lambda kept: changes.put_back(kept, batch), carried=undone)

    def take_over(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Tenure:
        def owned(stored: Stored) -> Stored:
            self._require_entry(pipeline, stored, topic_ids)
            return changes.taken_over(stored, run, first, topic_ids)

        return changes.tenure_of(pipeline, run, self._change(pipeline, owned), first)

    def begin(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> None:
        def begun(stored: Stored) -> Stored:
            self._require_entry(pipeline, stored, topic_ids)
            return changes.begun(stored, run, first, topic_ids)

        if first.keys() - self.stored(pipeline).keys():
            self._change(pipeline, begun)

    def renew(self, tenure: Tenure, run: UUID) -> Tenure:
        held = self._change(tenure.pipeline, lambda stored: changes.renewed(stored, tenure, run))
        return tenure.renewed(run, {at: held[at].position for at in tenure.positions})

    def stream(self, pipeline: str) -> StreamBatch | None:
        """Of a stream that keeps state the last batch that landed. Raises PositionLost as `kept` does."""
        return self.kept(pipeline).stream

    def begin_stream(self, tenure: Tenure, first: StreamBatch) -> None:
        """Before its first batch; may be repeated until one has landed."""
        self._commit(tenure.pipeline, lambda kept: changes.stream_begun(kept, tenure, first))

    def require_same(self, pipeline: str, topic_ids: Mapping[str, str]) -> None:
        fence.require_same_topics(pipeline, self.stored(pipeline), topic_ids)

    def set_positions(
        self,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        def elsewhere(held: Kept) -> Kept:
            return replace(held, stored=changes.set_by_hand(held.stored, positions, topic_ids, kept or {}))

        self._commit(pipeline, elsewhere, by_hand=True)

    def begin_anew(
        self,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int],
    ) -> None:
        """The same, for a stream that begins with an empty state. Raises PositionLost where it would over rows."""

        def anew(held: Kept) -> Kept:
            if self.table.holds_rows():
                raise streams.rows_are_there(self.table.name)
            return changes.begun_anew(held.stored, positions, topic_ids, kept)

        self._commit(pipeline, anew, by_hand=True)

    def require_no_rows(self, pipeline: str) -> None:
        """Raises PositionLost where there are some, and no batch of the pipeline's stream has landed."""
        if self.table.holds_rows():
            raise self._unknown_rows(pipeline)

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
        if not stored:
            self.require_no_rows(pipeline)

    def _unknown_rows(self, pipeline: str) -> PositionLost:
        return PositionLost(
            f"no position is stored for pipeline {pipeline!r}, but table {self.table.name!r} holds rows",
            "choose where to continue with `fencepost positions set`, or use an empty table",
        )

    # -- compare and set

    def _change(self, pipeline: str, change: Callable[[Stored], Stored]) -> Stored:
        """Of positions alone."""
        return self._commit(pipeline, lambda kept: replace(kept, stored=change(kept.stored))).stored

    def _commit(
        self,
        pipeline: str,
        change: Change,
        rows: Prepared | None = None,
        carried: Callable[[], Carried] | None = None,
        by_hand: bool = False,
    ) -> Kept:
        """What is kept now. Raises what `change` raises, and then nothing is committed."""
        for _ in range(TRIES):
            before = self.table.document(pipeline)
            if not by_hand:
                self._require_kept(before)
            kept = change(before.kept if before else Kept({}))
            told = carried() if carried else None
            if told is not None:
                told = replace(told, topic_ids={at.topic: kept.stored[at].topic_id for at in told.spans})
            after = (before or Document(0, {})).following(kept, self._guarantee, told)
            try:
                self.table.commit(pipeline, before, after, rows)
            except Outrun:
                continue
            except Unknown:
                if not self._is_newest(pipeline, after):
                    raise
            return kept
        raise Unreachable(f"table {self.table.name!r}: others commit to it all the time")

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
        self.rows: Prepared | None = None
        self.moved: Batch[Any] | None = None
        self._landed = Landed(0, sum(store.dead.values()))

    def write(self, batch: Batch[Any]) -> Landed:
        self.rows = self._store.table.prepare(batch.tenure.pipeline, batch.rows)
        self._landed = replace(self._landed, rows=self.rows.rows if self.rows else 0)
        return self._landed

    def committed(self) -> None:
        """Rows may have been merged again by then, and the caller holds this object already."""
        if self.rows is not None:
            object.__setattr__(self._landed, "rows", self.rows.rows)

    def advance(self, batch: Batch[Any]) -> None:
        kept = self._store.kept(batch.tenure.pipeline)
        fence.require_next(kept.stored, kept.stream, batch)
        self.moved = batch


def _moves(batch: Batch[Any]) -> Change:
    return lambda kept: changes.moved(kept, batch, datetime.now(UTC))
