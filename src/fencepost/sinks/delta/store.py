"""An open Delta table: a batch is one commit of Spark's, positions and all; without rows it is one of deltalake's.

A commit carries the next version of the pipeline's transaction identifier, one above that of the state which was
compared. Delta takes each version once, and fails the later one of two concurrent commits of one identifier: so a
commit lands on exactly the state that `fence.py` saw, or not at all. Delta skips a version that it has in silence;
that is why every commit is looked for in the log, by a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from fencepost import fence
from fencepost.errors import PositionLost, Unreachable, Usage
from fencepost.fence import Stored
from fencepost.model import Batch, Landed, StreamBatch, Tenure, TopicPartition
from fencepost.sinks import changes
from fencepost.sinks.changes import Kept
from fencepost.sinks.delta import dead_letters, writing
from fencepost.sinks.delta.held import Held, read, require_remembered, require_rows_kept, unknown_rows
from fencepost.sinks.delta.log import Entry, Log
from fencepost.sinks.delta.note import NUMBERS, Note, following
from fencepost.sinks.lake import streams
from fencepost.sinks.lake.folders import apart, no_folders
from fencepost.sinks.lake.merging import MOST_NAMED, null_keys

if TYPE_CHECKING:
    from fencepost.sinks.delta.target import DeltaTarget

CONFLICTS = 10  # times that a MERGE is done again, after somebody else's commit touched the same files
TRIES = 50  # of a commit without rows, while others commit to the same table


class DeltaStore:
    """Rows are DataFrames of Spark's, and dead letters. One thread at a time."""

    def __init__(self, target: DeltaTarget) -> None:
        self.target = target
        self.log = Log(target.path, target.storage)
        self.letters: dead_letters.Letters = {}  # of the batch that is to come
        self._known: dict[str, Held] = {}
        # the batch of the last write, the version that it made, and how many rows: for the advance that follows
        self._wrote: tuple[Batch[Any] | None, int | None, int] = (None, None, 0)

    # -- the sink

    def write(self, batch: Batch[Any]) -> Landed:
        """Rows in a commit of their own: for the two guarantees that take two steps."""
        self._bury()
        dead = sum(self.dead.values())
        landed: Entry | None = None
        if batch.rows is not None:
            landed = self._landed(batch.rows, lambda: Note(batch.tenure.pipeline, {}, 0), transaction=False)
        rows = landed.rows if landed else 0
        self._wrote = (batch, landed.version if landed else self._newest(), rows)
        return Landed(rows, dead)

    @property
    def dead(self) -> dict[TopicPartition, int]:
        """How many dead letters each partition has in the batch that is to come."""
        return {at: rows.num_rows for at, rows in self.letters.items()}

    def _bury(self) -> None:
        dead_letters.add(self.target.path, self.target.storage, self.letters)

    @contextmanager
    def transaction(self, _batch: Batch[Any]) -> Iterator[DeltaTransaction]:
        """Nothing is written before its end."""
        transaction = DeltaTransaction(self)
        yield transaction
        transaction.commit()

    # -- the ledger

    def held(self, pipeline: str) -> Held:
        """What is stored now. Reads what came since it was read last."""
        self._known[pipeline] = read(self.log, pipeline, self._known.get(pipeline))
        return self._known[pipeline]

    def stored(self, pipeline: str) -> Stored:
        return self.held(pipeline).stored

    def positions(self, pipeline: str) -> Mapping[TopicPartition, int]:
        return {at: held.position for at, held in self.stored(pipeline).items()}

    def done(self, batch: Batch[Any]) -> bool:
        held = self.held(batch.tenure.pipeline)
        require_rows_kept(held)
        return fence.batch_landed(held.stored, held.kept.stream, batch)

    def advance(self, batch: Batch[Any]) -> None:
        wrote, data, rows = self._wrote
        if wrote is not batch:  # at most once the last write is another batch's
            data, rows = None, 0

        def on(held: Held) -> Note:
            return replace(self.moved(held, batch, rows=False), data=data, wrote=rows)

        self._commit(batch.tenure.pipeline, on)

    def advance_without_rows(self, batch: Batch[Any]) -> None:
        """Rows and positions in one commit, where there is no row."""
        self._commit(batch.tenure.pipeline, lambda held: self.moved(held, batch, rows=True))

    def retreat(self, batch: Batch[Any]) -> None:
        self._change(batch.tenure.pipeline, batch.tenure.token, lambda kept: changes.put_back(kept, batch))

    def moved(self, held: Held, batch: Batch[Any], rows: bool) -> Note:
        """What is noted with a batch. Raises Fenced unless it may land now, under its owner."""
        require_rows_kept(held)
        kept = changes.moved(held.kept, batch, datetime.now(UTC))
        note = self._note(held, batch.tenure.pipeline, kept, batch.tenure.token)
        return replace(note, spans=dict(batch.noted), rows=rows, dead=self.dead)

    def take_over(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Tenure:
        def owned(held: Held) -> Note:
            self._require_entry(held, pipeline, topic_ids)
            taken = changes.taken_over(held.stored, run, first, topic_ids)
            return self._note(held, pipeline, replace(held.kept, stored=taken), run)

        return changes.tenure_of(pipeline, run, self._commit(pipeline, owned).stored, first)

    def begin(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> None:
        def entered(held: Held) -> Note:
            self._require_entry(held, pipeline, topic_ids)
            begun = changes.begun(held.stored, run, first, topic_ids)
            return self._note(held, pipeline, replace(held.kept, stored=begun), run)

        self._commit(pipeline, entered)

    def renew(self, tenure: Tenure, run: UUID) -> Tenure:
        def renewed(kept: Kept) -> Kept:
            return replace(kept, stored=changes.renewed(kept.stored, tenure, run))

        stored = self._change(tenure.pipeline, run, renewed)
        return tenure.renewed(run, {at: stored[at].position for at in tenure.positions})

    def begin_stream(self, tenure: Tenure, first: StreamBatch) -> None:
        """Before its first batch; may be repeated until one has landed."""
        self._change(tenure.pipeline, tenure.token, lambda kept: changes.stream_begun(kept, tenure, first))

    def stream(self, pipeline: str) -> StreamBatch | None:
        """Of a stream that keeps state the last batch that landed. Raises PositionLost where nobody knows any more."""
        held = self.held(pipeline)
        require_rows_kept(held)
        if held.note is None and (table := self.log.table()) is not None:
            require_remembered(pipeline, table)
        return held.kept.stream

    def require_same(self, pipeline: str, topic_ids: Mapping[str, str]) -> None:
        fence.require_same_topics(pipeline, self.stored(pipeline), topic_ids)

    def set_positions(
        self,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        def elsewhere(held: Held) -> Kept:
            return replace(held.kept, stored=changes.set_by_hand(held.stored, positions, topic_ids, kept or {}))

        self._by_hand(pipeline, elsewhere)

    def begin_anew(
        self,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int],
    ) -> None:
        """The same, for a stream that begins with an empty state. Raises PositionLost where it would over rows."""

        def anew(held: Held) -> Kept:
            if self._holds_rows():
                raise streams.rows_are_there(self.target.path)
            return changes.begun_anew(held.stored, positions, topic_ids, kept)

        self._by_hand(pipeline, anew)

    def _by_hand(self, pipeline: str, change: Callable[[Held], Kept]) -> None:
        def on(held: Held) -> Note:
            kept = change(held)
            known = (self.log.last_transaction(pipeline) or 0) >> NUMBERS
            if held.note is None and known:  # the table remembers epochs that the log does not any more
                kept = replace(kept, stored={at: replace(one, epoch=known + 1) for at, one in kept.stored.items()})
            return self._note(held, pipeline, kept, None)

        self._commit(pipeline, on)

    def require_no_rows(self, pipeline: str) -> None:
        """Raises PositionLost where there are some, and no batch of the pipeline's stream has landed."""
        if self._holds_rows():
            raise unknown_rows(pipeline, self.target.path)

    def _holds_rows(self) -> bool:
        table = self.log.table()
        return table is not None and bool(table.file_uris())

    def close(self) -> None:
        """Nothing is open between two calls."""

    # -- commits

    def _note(self, held: Held, pipeline: str, kept: Kept, token: UUID | None) -> Note:
        before, stored = held.note, kept.stored
        new = before is None or fence.newest_epoch(stored) > fence.newest_epoch(before.stored)
        note = Note(pipeline, stored, following(before, stored), token, self.target.guarantee, on=held.version)
        begun = held.total if new or before is None else before.begun
        return replace(note, total=held.total, begun=begun, stream=kept.stream)

    def _change(self, pipeline: str, token: UUID, change: Callable[[Kept], Kept]) -> Stored:
        def on(held: Held) -> Note:
            require_rows_kept(held)
            return self._note(held, pipeline, change(held.kept), token)

        if self.held(pipeline).note is None:
            raise PositionLost(
                f"the Delta table at {self.target.path} was removed or replaced while the pipeline ran: its log knows "
                f"nothing of {pipeline!r}",
                "`fencepost run` starts from scratch where there is no table, or an empty one; else choose where to "
                "continue with `fencepost positions set`",
            )
        return self._commit(pipeline, on).stored

    def _commit(self, pipeline: str, change: Callable[[Held], Note]) -> Note:
        """Without rows, on exactly the version of the table that was compared."""
        for _ in range(TRIES):
            held = self.held(pipeline)
            if held.version is None:
                raise Usage(f"there is no Delta table at {self.target.path}", "the first `fencepost run` makes it")
            note = change(held)
            if self.log.commit(held.version + 1, note):
                return note
        raise Unreachable(f"{self.target.path}: others commit to the table all the time")

    def commit_rows(self, batch: Batch[Any]) -> Landed:
        """Rows and positions in one commit of Spark's, which landed on return. Fenced where another one came first."""
        self._bury()
        pipeline = batch.tenure.pipeline
        try:
            own = self._landed(batch.rows, lambda: self.moved(self.held(pipeline), batch, rows=True), transaction=True)
        except Exception:
            kept = self.held(pipeline).kept
            fence.require_next(kept.stored, kept.stream, batch)
            raise
        require_rows_kept(self.held(pipeline))
        return Landed(own.rows if own else 0, sum(self.dead.values()))

    def _landed(self, frame: Any, noted: Callable[[], Note], transaction: bool) -> Entry | None:
        """Our own commit, as the log has it, whatever failed after it; None where there was nothing to commit.

        Raises what failed before it.
        """
        for last in (False,) * CONFLICTS + (True,):
            before = self._newest()
            note = noted()
            trouble = self._written(frame, note, transaction)
            if (own := self._own(note, before)) is not None:
                return own
            if trouble is None and not transaction and writing.changes_nothing(frame, self.target):
                return None
            if trouble is None:
                break
            if last or not writing.conflicts(trouble):
                raise trouble
        raise Unreachable(f"{self.target.path}: Spark said that it wrote, and the table's log has no such commit")

    def _written(self, frame: Any, note: Note, transaction: bool) -> Exception | None:
        """What it ended with: the log alone says whether it landed."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            writing.write(frame, self.target, note, transaction)
        except (PySparkException, Py4JJavaError) as error:
            with suppress(PySparkException, Py4JJavaError):  # they cannot even be read: that is what it says already
                return self._bad_rows(frame) or error
            return error
        return None

    def _bad_rows(self, frame: Any) -> Exception | None:
        """The records that no table takes, where some of them are there."""
        by, merge = self.target.partitioned, self.target.merge
        if merge and (refusal := null_keys(apart(frame, by), merge, MOST_NAMED)):
            return refusal
        here = self.target.path.startswith("/")  # an object store takes any name
        return no_folders(frame, by, MOST_NAMED) if here else None

    def _own(self, note: Note, before: int) -> Entry | None:
        """Our own commit, behind that version."""
        for entry in self.log.back(self._newest(), before + 1):
            if entry.note is not None and entry.note.attempt == note.attempt:
                return entry
        return None

    def _newest(self) -> int:
        latest = self.log.latest()
        if latest is None:
            raise Usage(f"there is no Delta table at {self.target.path}", "was it removed?")
        return latest

    def _require_entry(self, held: Held, pipeline: str, topic_ids: Mapping[str, str]) -> None:
        """Raises PositionLost and TopicRecreated where a run must not simply begin, or go on."""
        require_rows_kept(held)
        fence.require_same_topics(pipeline, held.stored, topic_ids)
        if held.note is not None:
            return
        table = self.log.table()
        if table is None or table.version() != held.version:
            return  # it went on since it was read: this commit will not land, and the next try looks again
        require_remembered(pipeline, table)
        if table.file_uris():
            raise unknown_rows(pipeline, self.target.path)


class DeltaTransaction:
    """Rows and positions that wait for their commit."""

    def __init__(self, store: DeltaStore) -> None:
        self._store = store
        self._batch: Batch[Any] | None = None
        self._landed = Landed(0, sum(store.dead.values()))

    def write(self, _batch: Batch[Any]) -> Landed:
        return self._landed

    def advance(self, batch: Batch[Any]) -> None:
        self._store.moved(self._store.held(batch.tenure.pipeline), batch, rows=True)
        self._batch = batch

    def commit(self) -> None:
        if self._batch is None:
            return
        if self._batch.rows is None:
            self._store.advance_without_rows(self._batch)
            return
        landed = self._store.commit_rows(self._batch)
        # only the commit knows how many rows it wrote, and the caller holds this object already
        object.__setattr__(self._landed, "rows", landed.rows)
