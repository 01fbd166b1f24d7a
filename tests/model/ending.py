"""May a run have ended so? Pure, as all of the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Protocol

from model.case import Case, Existing, Record, Slot
from model.making import unreadable
from model.seen import Place, Seen

IN_A_ROW = 10  # so many bad records and no good one stop a run, unless the pipeline says otherwise
FAULTS = (Existing.GENERATED, Existing.MISSING, Existing.REQUIRED)


class Behind(Protocol):
    """The world behind the run."""

    case: Case
    log: dict[Slot, dict[int, Record]]
    positions: dict[Slot, int]
    ends: dict[Slot, int]


def ended_so(world: Behind, seen: Seen, before: Mapping[Slot, int], bad: set[Place]) -> Iterator[str]:
    """What is wrong with it. `bad`: records that must or may be refused by a run that reads everything."""
    waiting = {slot: world.ends[slot] - at for slot, at in world.positions.items() if at < world.ends[slot]}
    match seen.ended:
        case "well":
            if waiting:
                yield f"it ended well, and has not read {waiting}"
        case "crashed":
            if seen.crashed is None:
                yield f"it died by itself: {seen.told}"
        case "refused" if not _at_fault(world.case, seen):
            if strangers := [place for place in seen.named if place not in bad]:
                yield f"it blames records that are good, {strangers}: {seen.told}"
            if not _may_stop(world, before, bad):
                yield f"it refused, and there was nothing to refuse: {seen.told}"
        case "refused":
            pass
        case _:
            yield f"it ended with {seen.ended}: {seen.told}"


def _at_fault(case: Case, seen: Seen) -> bool:
    """The table is, or the pipeline; not a record."""
    return seen.changed is not None or case.existing in FAULTS or bool(unholdable(case))


def unholdable(case: Case) -> str:
    """Why the pipeline is refused before anything moves."""
    in_order = case.deletes or (not case.provenance and not case.order_by)
    if case.mode == "upsert" and in_order and case.guarantee != "exactly-once":
        return "an older event that comes again cannot be told from a newer one"
    if (case.dead_letter or case.deletes) and not case.provenance:
        return "dead letters and deletes need provenance"
    return ""


def _may_stop(world: Behind, before: Mapping[Slot, int], bad: set[Place]) -> bool:
    if any(unreadable(world.case, world.log[slot][offset]) for slot, offset in bad if offset >= world.positions[slot]):
        return True
    if not world.case.dead_letter:
        return any(offset >= world.positions[slot] for slot, offset in bad)
    if world.case.max_share is not None and world.case.max_share >= 1:
        return False
    return any(_brakes(world, slot, before[slot], bad) for slot in world.case.slots)


def _brakes(world: Behind, slot: Slot, start: int, bad: set[Place]) -> bool:
    """May so many bad ones in this slot be too many? Of a longer part one of these lengths has the same share."""
    marks = [(slot, offset) in bad for offset in sorted(world.log[slot]) if offset >= start]
    share = 1.0 if world.case.max_share is None else world.case.max_share
    for size in range(IN_A_ROW, 2 * IN_A_ROW):
        for at in range(len(marks) - size + 1):
            count = sum(marks[at : at + size])
            if count == size or count > share * size:
                return True
    return False


def went_on(world: Behind, seen: Seen, dead: Counter[Place]) -> Iterator[str]:
    """Spans that were committed, and should have stopped the run."""
    share = 1.0 if world.case.max_share is None else world.case.max_share
    for span in seen.spans:
        there = [offset for offset in world.log[span.slot] if span.start <= offset < span.end]
        bad = sum(1 for offset in there if dead[span.slot, offset])
        all_of_them = world.case.max_share is None and bad == len(there)
        if len(there) >= IN_A_ROW and (all_of_them or bad > share * len(there)):
            yield f"{bad} of {len(there)} went to the dead letters, and the run did not stop: {span}"
