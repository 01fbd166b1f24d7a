"""What the table's snapshots say of a pipeline's commits: for status, receipts and the audit. Nothing here writes.

Snapshots expire: what they said of a commit is not known any more then, and nobody guesses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from fencepost.fence import Stored
from fencepost.guarantee import Guarantee
from fencepost.sinks.auditing import Commit
from fencepost.sinks.iceberg import catalog
from fencepost.sinks.iceberg.table import CARRIED, NUMBER, PIPELINE, document_property
from fencepost.sinks.kind import Activity, SinkJob
from fencepost.sinks.lake.commits import Carried, listed
from fencepost.sinks.lake.document import Document

if TYPE_CHECKING:
    from pyiceberg.table import Table

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Noted:
    """One commit of the pipeline whose snapshot is still there."""

    number: int
    at: datetime
    carried: Carried | None  # None: it moved no position over records


@dataclass(frozen=True)
class History:
    """What a table says of a pipeline, at one moment."""

    document: Document | None = None
    noted: list[Noted] = field(default_factory=list)  # the oldest first

    @property
    def stored(self) -> Stored:
        return self.document.stored if self.document else {}

    @property
    def guarantee(self) -> Guarantee | None:
        return Guarantee(self.document.guarantee) if self.document and self.document.guarantee else None

    @property
    def forgotten(self) -> bool:
        """Are commits of the pipeline not on record any more?"""
        return self.document is not None and len(self.noted) < self.document.number

    def commits(self) -> list[Commit]:
        return listed(self.stored, [one.carried for one in self.noted if one.carried], self.forgotten)

    def activity(self) -> Activity:
        since = datetime.now(UTC) - MINUTE
        recent = sum(one.carried.wrote or 0 for one in self.noted if one.at >= since and one.carried)
        last = max((one.moved_at for one in self.stored.values() if one.moved_at is not None), default=None)
        total = self.document.total if self.document else None
        return Activity(total.rows if total else 0, total.dead if total else 0, recent, last)


def history(job: SinkJob) -> History:
    with closing(catalog.Reader(job.options, job.spark)) as reader:
        table = reader.table()
    text = table.properties.get(document_property(job.pipeline)) if table else None
    if table is None or text is None:
        return History()
    return History(Document.from_json(text), list(_noted(table, job.pipeline))[::-1])


def _noted(table: Table, pipeline: str) -> Iterator[Noted]:
    """The newest first, of the snapshots that the table's state comes of, as long as they are there."""
    known = {one.snapshot_id: one for one in table.metadata.snapshots}
    at = table.current_snapshot()
    while at is not None:
        told = at.summary.additional_properties if at.summary else {}
        if told.get(PIPELINE) == pipeline and NUMBER in told:
            made = datetime.fromtimestamp(at.timestamp_ms / 1000, UTC)
            yield Noted(int(told[NUMBER]), made, Carried.from_json(told[CARRIED]) if CARRIED in told else None)
        at = known.get(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None
