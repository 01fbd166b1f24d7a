"""An open Delta table: a batch is one commit of Spark's, positions and all; without rows it is one of deltalake's.

A commit carries the next version of the pipeline's transaction identifier, one above that of the state which was
compared. Delta takes each version once, and fails the later one of two concurrent commits of one identifier: so a
commit lands on exactly the state that `fence.py` saw, or not at all. Delta skips a version that it has in silence;
that is why every commit is looked for in the log, by a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from fencepost import fence
from fencepost.errors import PositionLost, Unreachable, Usage
from fencepost.fence import Stored
from fencepost.model import Batch, Landed, Tenure, TopicPartition
from fencepost.sinks import changes
from fencepost.sinks.delta import dead_letters, writing
from fencepost.sinks.delta.log import Entry, Log
from fencepost.sinks.delta.note import NUMBERS, Note, app_id, following
from fencepost.sinks.lake.commits import Count
from fencepost.sinks.lake.folders import apart, no_folders
from fencepost.sinks.lake.merging import MOST_NAMED, null_keys

if TYPE_CHECKING:
    from fencepost.sinks.delta.target import DeltaTarget

CONFLICTS = 10  # times that a MERGE is done again, after somebody else's commit touched the same files
TRIES = 50  # of a commit without rows, while others commit to the same table


@dataclass(frozen=True)
class Held:
    """What the log says of one pipeline, at one version of the table."""

    version: int | None  # of the table; None: there is no table
    note: Note | None = None  # the pipeline's newest
    noted: Entry | None = None  # the commit that carries it
    replaced: Entry | None = None  # a later commit, of somebody else's, after which the rows are others
    table: int = 0  # which one of those that were at the path

    @property
    def stored(self) -> Stored:
        return self.note.stored if self.note else {}

    @property
    def total(self) -> Count:
        """What the pipeline wrote, as far as it was counted."""
        if self.note is None or self.noted is None:
            return Count()
        rows = self.noted.rows if self.note.rows else self.note.wrote
        return Count(self.note.total.rows + rows, self.note.total.dead + sum(self.note.dead.values()))


class DeltaStore:
    """Rows are DataFrames of Spark's, and dead letters. One thread at a time."""

    def __init__(self, target: DeltaTarget) -> None:
        self.target = target
        self.log = Log(target.path, target.storage)
        self.letters: dead_letters.Letters = {}  # of the batch that is to come
        self._known: dict[str, Held] = {}
        self._wrote: tuple[int, int] | None = None  # the version and the rows of a write that no advance followed yet

    # -- the sink

    def write(self, batch: Batch[Any]) -> Landed:
        """Rows in a commit of their own: for the two guarantees that take two steps."""
        self._bury()
        dead = sum(self.dead.values())
        if batch.rows is None:
            return Landed(0, dead)
        landed = self._landed(batch.rows, lambda: Note(batch.tenure.pipeline, {}, 0), transaction=False)
        self._wrote = (landed.version, landed.rows) if landed else None
        return Landed(landed.rows if landed else 0, dead)

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
        latest = self.log.latest()
        known = self._known.get(pipeline)
        if latest is None:
            return Held(None)
        if known is not None and known.table != self.log.tables:
            known = None
        if known is None or known.version is None:
            known = Held(-1)
        note, noted, replaced = known.note, known.noted, known.replaced
        newest: Entry | None = None
        for entry in self.log.back(latest, (known.version or 0) + 1):
            if entry.note is not None and entry.note.pipeline == pipeline and entry.note.stored:
                note, noted, replaced = entry.note, entry, newest or self._replaced_before(entry, entry.note)
                break
            newest = newest or (entry if entry.replaces else None)
        else:
            replaced = newest or replaced
        self._known[pipeline] = Held(latest, note, noted, replaced, self.log.tables)
        return self._known[pipeline]

    def _replaced_before(self, noted: Entry, note: Note) -> Entry | None:
        """A commit that replaced rows after those were compared on which this one was decided, and before it landed."""
        if note.on is None:
            return None
        return next((entry for entry in self.log.back(noted.version - 1, note.on + 1) if entry.replaces), None)

    def stored(self, pipeline: str) -> Stored:
        return self.held(pipeline).stored

    def positions(self, pipeline: str) -> Mapping[TopicPartition, int]:
        return {at: held.position for at, held in self.stored(pipeline).items()}

    def done(self, batch: Batch[Any]) -> bool:
        held = self.held(batch.tenure.pipeline)
        _require_rows_kept(held)
        return fence.landed(held.stored, batch)

    def advance(self, batch: Batch[Any]) -> None:
        data, rows = self._wrote or (None, 0)
        self._wrote = None

        def on(held: Held) -> Note:
            return replace(self.moved(held, batch, rows=False), data=data, wrote=rows)

        self._commit(batch.tenure.pipeline, on)

    def retreat(self, batch: Batch[Any]) -> None:
        self._change(batch.tenure.pipeline, batch.tenure.token, lambda stored: changes.retreated(stored, batch))

    def moved(self, held: Held, batch: Batch[Any], rows: bool) -> Note:
        """What is noted with a batch. Raises Fenced unless every position is at its start, under its owner."""
        _require_rows_kept(held)
        stored = changes.advanced(held.stored, batch, datetime.now(UTC))
        note = self._note(held, batch.tenure.pipeline, stored, batch.tenure.token)
        return replace(note, spans=dict(batch.spans), rows=rows, dead=self.dead)

    def take_over(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Tenure:
        def owned(held: Held) -> Note:
            self._require_entry(held, pipeline, topic_ids)
            return self._note(held, pipeline, changes.taken_over(held.stored, run, first, topic_ids), run)

        return changes.tenure_of(pipeline, run, self._commit(pipeline, owned).stored, first)

    def begin(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> None:
        def begun(held: Held) -> Note:
            self._require_entry(held, pipeline, topic_ids)
            return self._note(held, pipeline, changes.begun(held.stored, run, first, topic_ids), run)

        self._commit(pipeline, begun)

    def renew(self, tenure: Tenure, run: UUID) -> Tenure:
        stored = self._change(tenure.pipeline, run, lambda stored: changes.renewed(stored, tenure, run))
        return tenure.renewed(run, {at: stored[at].position for at in tenure.positions})

    def require_same(self, pipeline: str, topic_ids: Mapping[str, str]) -> None:
        fence.require_same_topics(pipeline, self.stored(pipeline), topic_ids)

    def set_positions(
        self,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        def elsewhere(held: Held) -> Note:
            stored = changes.set_by_hand(held.stored, positions, topic_ids, kept or {})
            known = (self.log.last_transaction(pipeline) or 0) >> NUMBERS
            if held.note is None and known:  # the table remembers epochs that the log does not any more
                stored = {at: replace(one, epoch=known + 1) for at, one in stored.items()}
            return self._note(held, pipeline, stored, None)

        self._commit(pipeline, elsewhere)

    def close(self) -> None:
        """Nothing is open between two calls."""

    # -- commits

    def _note(self, held: Held, pipeline: str, stored: Stored, token: UUID | None) -> Note:
        before = held.note
        new = before is None or fence.newest_epoch(stored) > fence.newest_epoch(before.stored)
        note = Note(pipeline, stored, following(before, stored), token, self.target.guarantee, on=held.version)
        return replace(note, total=held.total, begun=held.total if new or before is None else before.begun)

    def _change(self, pipeline: str, token: UUID, change: Callable[[Stored], Stored]) -> Stored:
        def on(held: Held) -> Note:
            _require_rows_kept(held)
            return self._note(held, pipeline, change(held.stored), token)

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
            fence.require_start(self.held(pipeline).stored, batch)
            raise
        _require_rows_kept(self.held(pipeline))
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
        _require_rows_kept(held)
        fence.require_same_topics(pipeline, held.stored, topic_ids)
        if held.note is not None:
            return
        table = self.log.table()
        if table is None or table.version() != held.version:
            return  # it went on since it was read: this commit will not land, and the next try looks again
        where = "choose where to continue with `fencepost positions set`"
        if table.transaction_version(app_id(pipeline)) is not None:
            raise PositionLost(
                f"the positions of pipeline {pipeline!r} went with the clean-up of the table's log: nothing of the "
                "pipeline was committed for longer than delta.logRetentionDuration",
                where,
            )
        if table.file_uris():
            raise PositionLost(
                f"no position is stored for pipeline {pipeline!r}, but table {self.target.path!r} holds rows: "
                "starting from scratch could duplicate them",
                f"{where}, or use an empty table",
            )


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
            self._store.advance(self._batch)
            return
        landed = self._store.commit_rows(self._batch)
        # only the commit knows how many rows it wrote, and the caller holds this object already
        object.__setattr__(self._landed, "rows", landed.rows)


def _require_rows_kept(held: Held) -> None:
    if held.replaced is not None and held.note is not None:
        raise PositionLost(
            f"version {held.replaced.version} of the table ({held.replaced.operation}) replaced rows after the "
            f"last commit of pipeline {held.note.pipeline!r}: its positions say nothing of the rows that are there now",
            "choose where to continue with `fencepost positions set`",
        )
