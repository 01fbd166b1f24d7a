"""An Iceberg table as a `LakeTable`: data files are written first, and published by one pinned commit.

Pinned: the commit is made against the very metadata from which the pipeline's document was read. Iceberg's own retry
would make it against any later one; so it is not used, and who comes late is told.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError

from fencepost.errors import FencepostError, Unknown, Unreachable, Usage
from fencepost.sinks.iceberg import catalog, dead_letters
from fencepost.sinks.iceberg.library import Library, is_a, is_loaded, said
from fencepost.sinks.iceberg.options import IcebergOptions
from fencepost.sinks.iceberg.writing import DataFiles, Merged, staged
from fencepost.sinks.lake.document import Document
from fencepost.sinks.lake.store import LakeStore, Letters, Outrun

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyspark.sql import DataFrame, SparkSession

TRIES = 50  # against others that commit to the same table
# in a snapshot's summary
COMMIT, PIPELINE, NUMBER, CARRIED = (f"fencepost.{what}" for what in ("commit", "pipeline", "number", "carried"))
STALE = "it was rolled back to before the last commit of the pipeline, or its rows were replaced"


def document_property(pipeline: str) -> str:
    return f"fencepost.document.{pipeline}"


def snapshot_property(pipeline: str) -> str:
    """Holds the snapshot of the commit that set the document."""
    return f"fencepost.snapshot.{pipeline}"


@dataclass(frozen=True)
class IcebergTarget:
    """What a writer must know of a table that is there. It is opened on Spark's driver."""

    options: IcebergOptions
    spark: Mapping[str, str] = field(repr=False)  # the user's settings; may hold a password
    guarantee: str | None = None

    def open(self, session: SparkSession | None = None) -> LakeStore:
        """Commits are made in the JVM of this session, or of the one that this process has, or in a small one."""
        return LakeStore(IcebergTable(self, session or _active_session()), self.guarantee)


def _active_session() -> SparkSession | None:
    """Only one whose JVM has the library: it may have been started for something else."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    return session if session is not None and is_loaded(session.sparkContext._jvm) else None


class IcebergTable:
    """Reads by pyiceberg, which needs no JVM; commits by Iceberg's own library. Spark's tasks write the data files."""

    def __init__(self, target: IcebergTarget, session: SparkSession | None = None) -> None:
        self._target = target
        self._reader = catalog.Reader(target.options, target.spark)
        settings = catalog.library_settings(target.options, target.spark)
        self._library = Library(target.options.catalog, settings, catalog.jars_for(target.options), session)

    @property
    def name(self) -> str:
        return self._target.options.name

    def document(self, pipeline: str) -> Document | None:
        table = self._reader.table()
        text = table.properties.get(document_property(pipeline)) if table else None
        if table is None or text is None:
            return None
        snapshot = int(table.properties[snapshot_property(pipeline)])
        return replace(Document.from_json(text), stale="" if _is_kept(table, snapshot) else STALE)

    def holds_rows(self) -> bool:
        table = self._reader.table()
        head = table.current_snapshot() if table else None
        return head is not None and _holds_rows(head)

    def bury(self, letters: Letters) -> None:
        dead_letters.add(self._library, self._reader, self._target.options, letters)

    def prepare(self, pipeline: str, rows: DataFrame | None) -> DataFiles | Merged | None:
        """By Spark's tasks: data files, or a MERGE on a branch."""
        if rows is None:
            return None
        merge = self._target.options.merge
        if merge is None:
            return staged(self._library, self._now(), rows)
        return Merged(self._now, self.name, branch_prefix(pipeline), rows, merge)

    def commit(self, pipeline: str, before: Document | None, after: Document, rows: DataFiles | Merged | None) -> None:
        """Others may commit to the table all the time; only a commit of this pipeline is in the way of files.

        A MERGE is one of what it found: where main has moved since, it is done again, and Outrun raised.
        """
        if before is None and self._reader.table() is None:
            raise Usage(f"there is no table {self.name!r}", "the first `fencepost run` makes it")
        tried: Any = None  # the metadata against which a commit failed, or seemed to
        for _ in range(TRIES):
            with self._answered(tried is not None):
                table = self._now()
                transaction = table.newTransaction()
                base = transaction.startMetadata()
                newest = _document(base, pipeline)
                if newest is not None and newest.commit == after.commit:
                    return
                if (newest and newest.commit) != (before and before.commit):
                    if tried is not None and _has_landed(base, after, tried):
                        return
                    raise Outrun
                if fits := rows is None or rows.fits(base):
                    _publish(transaction, base, rows, pipeline, after)
                changed = transaction.currentMetadata()
            if rows is not None and not fits:
                rows.again()
                raise Outrun
            if self._published(table, base, changed):
                return
            tried = tried or base
        raise Unknown(f"table {self.name!r}: others commit all the time")

    def close(self) -> None:
        self._reader.close()
        self._library.close()

    # -- its clients

    def _now(self) -> Any:
        return self._library.table(self._target.options.table)

    def _published(self, table: Any, base: Any, changed: Any) -> bool:
        """One attempt. False: the table is not what it was, or the catalog says so; the newest document decides."""
        try:
            table.operations().commit(base, changed)
        except (Py4JError, OSError) as error:
            if isinstance(error, Py4JJavaError) and is_a(error, "CommitFailedException"):
                return False
            raise Unknown(f"table {self.name!r}: no answer to a commit: {said(error)}") from error
        return True

    @contextmanager
    def _answered(self, tried: bool) -> Iterator[None]:
        """What is asked before a commit. After the first one nobody knows what it did until the table says so."""
        try:
            yield
        except (Py4JError, OSError, FencepostError) as error:
            if tried:
                raise Unknown(f"table {self.name!r}: a commit failed, or seemed to, and then {said(error)}") from error
            if isinstance(error, FencepostError):
                raise
            raise Unreachable(f"table {self.name!r} cannot be written: {said(error)}") from error


def branch_prefix(pipeline: str) -> str:
    """Of the names of its branches: letters and digits, whatever the pipeline is called."""
    return f"fencepost_{hashlib.sha256(pipeline.encode()).hexdigest()[:16]}_"


def _publish(transaction: Any, base: Any, rows: DataFiles | Merged | None, pipeline: str, after: Document) -> None:
    """A snapshot, with or without files, and the document: every commit of ours moves the table's main branch.

    Branches of the pipeline go with it: one that this commit does not publish is a killed run's, or a zombie's.
    """
    ours = [name for name in base.refs().keySet() if name.startswith(branch_prefix(pipeline))]
    if ours:
        refs = transaction.manageSnapshots()
        if rows is not None and rows.branch is not None:
            refs.fastForwardBranch("main", rows.branch)
        for name in ours:
            refs.removeBranch(name)
        refs.commit()
    append = transaction.newFastAppend()
    for file in rows.files if rows else ():
        append.appendFile(file)
    noted = {PIPELINE: pipeline, COMMIT: str(after.commit), NUMBER: str(after.number)}
    for name, value in {**noted, **({CARRIED: after.carried.to_json()} if after.carried else {})}.items():
        append.set(name, value)
    append.commit()
    snapshot = int(transaction.table().currentSnapshot().snapshotId())
    properties = transaction.updateProperties()
    properties.set(document_property(pipeline), after.to_json()).set(snapshot_property(pipeline), str(snapshot))
    properties.commit()


def _has_landed(metadata: Any, document: Document, base: Any) -> bool:
    """Is this commit among those that the table's state comes of, down to that metadata?

    Raises Unknown where snapshots in between are gone.
    """
    first, at = base.currentSnapshot(), metadata.currentSnapshot()
    while at is not None:
        if first is not None and at.snapshotId() == first.snapshotId():
            return False
        if at.summary().get(COMMIT) == str(document.commit):
            return True
        if (parent := at.parentId()) is None:
            if first is None:
                return False
            break
        at = metadata.snapshot(parent)
    raise Unknown("the snapshots that would tell have expired")


def _document(metadata: Any, pipeline: str) -> Document | None:
    text = metadata.properties().get(document_property(pipeline))
    return Document.from_json(text) if text is not None else None


def _holds_rows(head: Snapshot) -> bool:
    """Not every writer counts them: without a count there may be some."""
    return head.summary is None or head.summary["total-records"] != "0"


def _is_kept(table: Table, snapshot: int) -> bool:
    """Does the table's state come of this snapshot?

    Snapshots in between may have expired: then the line of ancestors ends early, and nothing speaks against it.
    """
    ours, at = table.snapshot_by_id(snapshot), table.current_snapshot()
    if at is None:
        return False  # the table was replaced, and is empty since
    while at is not None and at.snapshot_id != snapshot:
        older = ours is not None and (at.sequence_number or 0) < (ours.sequence_number or 0)
        if older or at.parent_snapshot_id is None:
            return False
        at = table.snapshot_by_id(at.parent_snapshot_id)
    return True
