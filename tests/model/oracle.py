"""Which rows, dead letters and refusals must come of a pipeline and its history. Pure: no Kafka, no PostgreSQL.

The oracle goes through the log record by record. How a run cuts the log into batches is not its business: it is told
where the positions stand behind a run, and says what must be there then, and whether the run may have ended so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from model.case import Case, Change, Existing, Record, Slot
from model.ending import ended_so, went_on
from model.making import Made, Row, made_of, refusal, unreadable, wrong_types
from model.seen import Place, Seen


class World:
    """What there must be."""

    def __init__(self, case: Case, starts: Mapping[Slot, int]) -> None:
        self.case = case
        self.positions = dict(starts)
        self.log: dict[Slot, dict[int, Record]] = {slot: {} for slot in case.slots}
        self.ends = dict(starts)
        self._added: list[Row] = []
        self.dead: Counter[Place] = Counter()
        self.lost: set[Place] = set()  # by a crash, as at-most-once allows
        self.counted = [0, 0]  # rows and dead, as the commits say
        self.repeated = False  # records were carried twice
        self._there: set[tuple[int, ...]] = set()  # where the added rows came from
        self._by_key: dict[tuple[Any, ...], Row] = {}
        self._allowed: Counter[Place] = Counter()  # dead letters of the run that is looked at

    @property
    def rows(self) -> list[Row]:
        return list(self._by_key.values()) if self.case.key else self._added

    def come(self, records: Mapping[Place, Record]) -> None:
        for (slot, offset), record in records.items():
            self.log[slot][offset] = record
            self.ends[slot] = max(self.ends[slot], offset + 1)

    def set_back(self, slot: Slot, position: int) -> None:
        self.repeated |= position < self.positions[slot]
        self.positions[slot] = position

    # -- a run

    def ran(self, seen: Seen) -> Iterator[str]:
        """What is wrong with how it ended. From then on the world is as it must be behind the run."""
        before, dead_before = dict(self.positions), self.dead.copy()
        new = seen.dead - dead_before
        mixed = self._keys_in(before)
        bad = self._bad_ones(before, mixed)
        self._allowed = Counter()
        for slot in self.case.slots:
            at = seen.positions.get(slot, before[slot])
            if not before[slot] <= at <= self.ends[slot]:
                yield f"the position of {slot} went from {before[slot]} to {at}, of {self.ends[slot]}"
            yield from self._carried(slot, before[slot], at, seen, (new, mixed))
            self.positions[slot] = at
        if seen.crashed and seen.crashed[0] == "written" and self.case.guarantee == "at-least-once":
            _, slot, start, end = seen.crashed
            self.repeated = True
            yield from self._carried(slot, start, end, seen, (new, mixed), again=True)
        if seen.changed is Change.DROP:
            self._forget("a")
        yield from ended_so(self, seen, before, bad)
        yield from went_on(self, seen, new)
        self.dead = dead_before + new
        if new - self._allowed:
            yield f"dead letters that are none: {sorted(new - self._allowed)}"

    def _carried(
        self,
        slot: Slot,
        start: int,
        end: int,
        seen: Seen,
        known: tuple[Counter[Place], Counter[Any]],
        again: bool = False,
    ) -> Iterator[str]:
        new, mixed = known
        lost = self._lost_by(seen, slot)
        for offset in (offset for offset in sorted(self.log[slot]) if start <= offset < end):
            record, place = self.log[slot][offset], (slot, offset)
            if offset in lost:
                self.lost.add(place)
                continue
            made = made_of(self.case, record, offset)
            must, may = self._bad(made, mixed)
            is_dead = new[place] > self._allowed[place]
            if must and (not self.case.dead_letter or unreadable(self.case, record)):
                yield f"{place} went by, though it is bad ({made.reason or must}): {record!r}"
            elif must and not is_dead:
                yield f"{place} is not among the dead letters, though it is bad ({made.reason or must}): {record!r}"
            if is_dead and (must or may):
                self._allowed[place] += 1
                self.counted[1] += not again
            elif not must:
                self.counted[0] += 0 if again else sum(not self._there_already(row) for row in made.rows)
                self._land(made)

    def _lost_by(self, seen: Seen, slot: Slot) -> range:
        """The offsets that a crash between advance and write takes along."""
        if seen.crashed is None or self.case.guarantee != "at-most-once":
            return range(0)
        step, where, start, end = seen.crashed
        return range(start, end) if (step, where) == ("advanced", slot) else range(0)

    # -- good and bad

    def _bad(self, made: Made, mixed: Counter[Any]) -> tuple[str, bool]:
        """Why the record must be refused, if it must; and whether it may be, where others of its key came along."""
        if made.reason:
            return made.reason, True
        if not self.case.key:
            return self._refused_in_append(made), False
        typed = next(filter(None, (wrong_types(self.case, row) for row in made.rows)), "")
        barred = next((why for row in made.rows if self._wins(row) and (why := refusal(self.case, row))), "")
        alone = all(mixed[self._key(row)] == 1 for row in made.rows)
        known = self.case.mode == "dedupe" and any(self._key(row) in self._by_key for row in made.rows)
        if typed and not known and (alone or self.case.mode == "upsert"):
            return typed, True
        if barred and alone:
            return barred, True
        return "", bool(typed or any(refusal(self.case, row) for row in made.rows))

    def _refused_in_append(self, made: Made) -> str:
        if made.rows and all(map(self._there_already, made.rows)):
            return ""
        taken = {row.values["k"] for row in self.rows} if self.case.existing is Existing.UNIQUE else set()
        for row in made.rows:
            if why := wrong_types(self.case, row) or refusal(self.case, row):
                return why
            if row.values["k"] is not None and row.values["k"] in taken:
                return f"k {row.values['k']} is there already"
            if self.case.existing is Existing.UNIQUE:
                taken.add(row.values["k"])
        return ""

    def _there_already(self, row: Row) -> bool:
        """At least once into a unique index: a row of the same event that is there is known again, and left alone.

        Without provenance nobody can know it: the refusal stands.
        """
        known = self.case.existing is Existing.UNIQUE and self.case.guarantee == "at-least-once"
        return known and self.case.provenance and row.place in self._there

    def _keys_in(self, before: Mapping[Slot, int]) -> Counter[Any]:
        """How many records of each key a run can meet."""
        found: Counter[Any] = Counter()
        if self.case.key:
            for slot, log in self.log.items():
                for offset, record in log.items():
                    if offset >= before[slot]:
                        found.update({self._key(row) for row in made_of(self.case, record, offset).rows})
        return found

    # -- rows

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row.values[name] for name in self.case.key)

    def _land(self, made: Made) -> None:
        for row in made.rows:
            if not self.case.key:
                self._added += [] if self._there_already(row) else [row]
                self._there.add(row.place)
            elif self._wins(row):
                if row.deletes:
                    self._by_key.pop(self._key(row), None)
                else:
                    self._by_key[self._key(row)] = row

    def _wins(self, row: Row) -> bool:
        """May it replace what its key has now?"""
        there = self._by_key.get(self._key(row))
        if there is None:
            return not row.deletes
        if self.case.mode == "dedupe":
            return False
        if self.case.order_by:
            here, other = (_rank(one.values[self.case.order_by]) for one in (row, there))
            if here != other:
                return here > other
            return row.place >= there.place or not self.case.provenance
        same = row.place[:2] == there.place[:2]
        return not (same and self.case.provenance and there.place > row.place)

    def _forget(self, column: str) -> None:
        self._added = [row.without(column) for row in self._added]
        self._by_key = {key: row.without(column) for key, row in self._by_key.items()}

    def _bad_ones(self, before: Mapping[Slot, int], mixed: Counter[Any]) -> set[Place]:
        """Records that must or may be refused by a run that reads everything."""
        found = set()
        kept = list(self._added), dict(self._by_key), set(self._there)
        for slot, log in self.log.items():
            for offset in (offset for offset in sorted(log) if offset >= before[slot]):
                made = made_of(self.case, log[offset], offset)
                must, may = self._bad(made, mixed)
                if must or may:
                    found.add((slot, offset))
                if not must:
                    self._land(made)
        self._added, self._by_key, self._there = kept
        return found


def _rank(value: Any) -> tuple[int, Any]:
    """PostgreSQL's order: null lowest here, NaN above everything."""
    if value is None:
        return (0, 0)
    if isinstance(value, float) and value != value:  # noqa: PLR0124 (NaN)
        return (1, (1, inf))
    return (1, (0, value))
