"""What became of an event, told from what is on record. Pure.

A record below the position was carried only where a commit's span covers it: positions are also set by hand, begin
where `source.start` says, and are moved over records that were gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fencepost.machine.counting import count
from fencepost.model import Mode, Span


class Fate(StrEnum):
    PROCESSED = "processed"  # a commit carried it: what came of it is in the sink, or in the dead letters
    WAITING = "waiting"  # the position is not there yet
    LANDED = "landed"  # its row is in the sink
    DEAD = "dead"  # it is in the dead letters
    FILTERED = "filtered"  # read, and no row came of it
    NO_ROW = "no-row"  # read, and its key's row is another event's, or there is none: upsert and dedupe do not tell
    GONE = "gone"  # nothing to be read there: aborted, compacted, deleted, or a marker
    SKIPPED = "skipped"  # the position went past it, and no commit carried it
    UNKNOWN = "unknown"  # what is on record does not tell


@dataclass(frozen=True)
class Carried:
    """What a commit says about the offsets that it covered."""

    span: Span
    rows: int | None  # None: the position moved, and nobody noted what was written
    dead: int = 0


@dataclass(frozen=True)
class Record:
    """Everything that the ledger holds about one offset."""

    offset: int
    position: int | None  # None: the pipeline has never been there
    carried: Sequence[Carried] = ()  # the commits that covered it
    begins: bool | None = True  # will a pipeline that has not been there read it? None: that is decided when it begins
    others: Sequence[Carried] = ()  # commits of topics of the same name that were deleted, at or around these offsets
    forgotten: bool = False  # are the pipeline's first commits not on record any more?

    @property
    def before(self) -> Sequence[Carried]:
        """Those of the others that covered this very offset."""
        return [one for one in self.others if one.span.start <= self.offset < one.span.end]


@dataclass(frozen=True)
class Lookup:
    """What was found where rows and records are looked up."""

    rows: int  # that came of it
    dead: str | None = None  # why it is a dead letter; None: it is none
    readable: bool = False  # is there a committed record?
    tombstone: bool = False
    mode: Mode = Mode.APPEND
    in_span: int | None = None  # rows that came of the span that covers it; None: not counted
    firsts: int | None = None  # rows that are the first of their event; None: one event may have several


Answer = tuple[Fate, str]
"""The fate, and what there is to say about it."""

_UNCOUNTED = (
    "its position moved and no commit says what was written: at-most-once, or records that were gone before they "
    "were read"
)
_FORGOTTEN = "no commit on record covers it, and the pipeline's first ones are not on record any more"
_BEFORE_ROWS = "no row; at-most-once moves the position first, so it may be filtered or lost"
_SET_BACK = "it was processed before, and the position was set back"
_NEVER_READ = "the pipeline has not read this partition yet; if it was renamed, ask under its former name"


def by_position(at: Record) -> Answer:
    """Without a look at the rows."""
    if at.position is None and at.begins is not True:
        return Fate.UNKNOWN, f"{_NEVER_READ}; where it begins is decided by its first run"
    if at.position is None:
        return Fate.WAITING, _NEVER_READ
    if at.offset >= at.position:
        return Fate.WAITING, _SET_BACK if at.carried else ""
    if any(one.rows is not None for one in at.carried):
        return Fate.PROCESSED, ""
    if at.carried or at.forgotten:
        return Fate.UNKNOWN, _UNCOUNTED if at.carried else _FORGOTTEN
    return Fate.SKIPPED, "no commit covers it"


def by_rows(at: Record, found: Lookup) -> Answer:
    """With one. A row that is there is there, whatever the position says."""
    fate, note = by_position(at)
    if found.rows:
        return _with_row(at, found)
    if found.dead is not None and not _letter_of_another(at):
        return _with_letter(at, found.dead)
    if fate is Fate.UNKNOWN and at.carried and found.readable:
        return fate, _BEFORE_ROWS
    if fate is not Fate.PROCESSED:
        return fate, note
    return _without_row(at, found)


def _with_row(at: Record, found: Lookup) -> Answer:
    """A topic of the same name that was deleted may have left rows at the same place: one of each of its events."""
    earlier = sum(one.rows != 0 for one in at.before)
    if not earlier:
        return Fate.LANDED, ""
    if found.firsts is not None and found.firsts > earlier:
        return Fate.LANDED, "some of the rows may be of the topic of this name that was deleted"
    return Fate.UNKNOWN, "there is a row, and it may be of the topic of this name that was deleted"


def _letter_of_another(at: Record) -> bool:
    """Is a dead letter at this place certainly of a topic that was deleted?"""
    return any(one.dead for one in at.before) and bool(at.carried) and not any(one.dead for one in at.carried)


def _with_letter(at: Record, why: str) -> Answer:
    if any(one.dead for one in at.before):
        return Fate.UNKNOWN, "there is a dead letter, and it may be of the topic of this name that was deleted"
    return Fate.DEAD, why


def _without_row(at: Record, found: Lookup) -> Answer:
    """Carried, and nothing is there of it."""
    if not found.readable:
        return Fate.GONE, ""
    if found.mode is not Mode.APPEND:
        return Fate.NO_ROW, "a tombstone" if found.tombstone else "replaced by another event of its key, or filtered"
    if len(at.carried) == 1 and found.in_span is not None and found.in_span < (at.carried[0].rows or 0):
        missing = (at.carried[0].rows or 0) - found.in_span
        return Fate.UNKNOWN, f"filtered or lost: its commit lacks {count(missing, 'row')}; see `fencepost audit`"
    if any(one.rows != 0 for one in at.others) and any(one.rows != 0 for one in at.carried):
        return Fate.UNKNOWN, "filtered or lost: among its commit's rows may be some of the topic that was deleted"
    return Fate.FILTERED, ""
