"""How a run ended, and what stands where behind it: what the oracle is told of the real world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from model.case import Change, Slot

Place = tuple[Slot, int]


@dataclass(frozen=True)
class SpanSeen:
    """What a commit of the run covered, as the ledger tells."""

    slot: Slot
    start: int
    end: int


@dataclass(frozen=True)
class Seen:
    """How a run ended, and what stands where behind it."""

    ended: str  # "well", "crashed", "refused" (Usage, Refused, Poison), or the name of any other error
    told: str = ""  # what it said
    named: tuple[Place, ...] = ()  # the records that it blamed
    positions: Mapping[Slot, int] = field(default_factory=dict)
    dead: Counter[Place] = field(default_factory=Counter)  # all that are in the dead letters' table
    crashed: tuple[str, Slot, int, int] | None = None  # behind which step of which span it died
    changed: Change | None = None  # what was done to the table meanwhile
    spans: tuple[SpanSeen, ...] = ()
