"""What the table's log says of one pipeline: its newest note, and whether that still speaks of the rows there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.errors import PositionLost
from fencepost.fence import Stored
from fencepost.sinks.changes import Kept
from fencepost.sinks.delta.log import Entry, Log
from fencepost.sinks.delta.note import Note, app_id
from fencepost.sinks.lake.commits import Count

if TYPE_CHECKING:
    from deltalake import DeltaTable

ELSEWHERE = "choose where to continue with `fencepost positions set`"


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
    def kept(self) -> Kept:
        return Kept(self.note.stored, self.note.stream) if self.note else Kept({})

    @property
    def total(self) -> Count:
        """What the pipeline wrote, as far as it was counted."""
        if self.note is None or self.noted is None:
            return Count()
        rows = self.noted.rows if self.note.rows else self.note.wrote
        return Count(self.note.total.rows + rows, self.note.total.dead + sum(self.note.dead.values()))


def read(log: Log, pipeline: str, known: Held | None) -> Held:
    """What is stored now. `known`: what was read last; only what came since is read then."""
    latest = log.latest()
    if latest is None:
        return Held(None)
    if known is None or known.version is None or known.table != log.tables:
        known = Held(-1)
    note, noted, replaced = known.note, known.noted, known.replaced
    newest: Entry | None = None
    for entry in log.back(latest, (known.version or 0) + 1):
        if entry.note is not None and entry.note.pipeline == pipeline and entry.note.stored:
            note, noted, replaced = entry.note, entry, newest or _replaced_before(log, entry, entry.note)
            break
        newest = newest or (entry if entry.replaces else None)
    else:
        replaced = newest or replaced
    return Held(latest, note, noted, replaced, log.tables)


def _replaced_before(log: Log, noted: Entry, note: Note) -> Entry | None:
    """A commit that replaced rows after those were compared on which this one was decided, and before it landed."""
    if note.on is None:
        return None
    return next((entry for entry in log.back(noted.version - 1, note.on + 1) if entry.replaces), None)


def require_rows_kept(held: Held) -> None:
    if held.replaced is not None and held.note is not None:
        raise PositionLost(
            f"version {held.replaced.version} of the table ({held.replaced.operation}) replaced rows after the "
            f"last commit of pipeline {held.note.pipeline!r}: its positions say nothing of the rows that are there now",
            ELSEWHERE,
        )


def require_remembered(pipeline: str, table: DeltaTable) -> None:
    """Of a pipeline without a note: has it had one, that the log has not any more?"""
    if table.transaction_version(app_id(pipeline)) is not None:
        raise PositionLost(
            f"the positions of pipeline {pipeline!r} went with the clean-up of the table's log: nothing of the "
            "pipeline was committed for longer than delta.logRetentionDuration",
            ELSEWHERE,
        )


def unknown_rows(pipeline: str, path: str) -> PositionLost:
    return PositionLost(
        f"no position is stored for pipeline {pipeline!r}, but table {path!r} holds rows: "
        "starting from scratch could duplicate them",
        f"{ELSEWHERE}, or use an empty table",
    )
