"""The real world against the oracle's: rows, dead letters, and everything that reports on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.admin.status import pipeline_status
from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.receipt import receipt
from fencepost.audit.request import of_pipeline
from fencepost.errors import Usage
from fencepost.sinks.postgres.last_rows import last_rows
from fencepost.sinks.postgres.reading import reader
from model.case import Behaviour, Existing
from model.driving import Play, lenient
from model.making import Row
from model.oracle import World
from model.seen import Place
from model.tables import FILLED

FEW = 5  # of what differs is shown
LOOKED_AT = 10  # rows in a peek


def behind_a_run(world: World, play: Play) -> Iterator[str]:
    """What is wrong with the table, the dead letters and the run's own summary."""
    expected, found = Counter(_expected(world, play)), Counter(map(_frozen, play.rows()))
    if _may_double(world):
        expected, found = Counter(set(expected)), Counter(set(found))
    yield from _differing("rows that are missing", expected - found)
    yield from _differing("rows that should not be there", found - expected)
    for slot, offset, key, value in play.letters():
        record = world.log[slot].get(offset)
        if record is None or (record.key, record.value) != (key, value):
            yield f"the dead letter of {slot} {offset} is {key!r}: {value!r}, and the record is {record!r}"


def _may_double(world: World) -> bool:
    """At least once into a unique index: rows without a key are known again only beside others that have one."""
    case = world.case
    return world.repeated and case.existing is Existing.UNIQUE and case.guarantee == "at-least-once"


def summary(world: World, play: Play, before: tuple[int, int]) -> Iterator[str]:
    """`before`: rows and dead that were counted before the run."""
    told = play.summary
    if told is None or _may_double(world):
        return
    expected = tuple(now - then for now, then in zip(world.counted, before, strict=True))
    if (told.rows, told.dead) != expected:
        yield f"the summary says {told.rows} rows and {told.dead} dead, and it was {expected}"
    positions = {play.slot(*place): at for place, at in told.positions.items()}
    wrong = {slot: at for slot, at in positions.items() if at != world.positions[slot]}
    if wrong:
        yield f"the summary says positions {wrong}, and they are {world.positions}"


def at_the_end(world: World, play: Play) -> Iterator[str]:
    yield from _status(world, play)
    if not play.positions() or not play.exists(play.table):
        return
    yield from _peek(world, play)
    if world.case.provenance:
        yield from _receipts(world, play)
    yield from _audit(world, play)


def _status(world: World, play: Play) -> Iterator[str]:
    told = pipeline_status(play.spec)
    stored = play.positions()
    for one in told.partitions:
        slot = play.slot(one.topic, one.partition)
        position = world.positions[slot]
        if one.position != stored.get(slot) or (one.position is not None and one.position != position):
            yield f"status says that {slot} stands at {one.position}, and it stands at {position}"
        if one.position is not None and one.lag != world.ends[slot] - position:
            yield f"status says that {slot} lags by {one.lag}, and it does by {world.ends[slot] - position}"
    rows, dead = world.counted
    known = world.case.guarantee != "at-most-once"  # else the position moves before the rows are counted
    known = known and not _may_double(world)
    if known and (told.rows, told.dead) != (rows, dead):
        yield f"status says {told.rows} rows and {told.dead} dead, and it was {rows} and {dead}"


def _peek(world: World, play: Play) -> Iterator[str]:
    with reader(play.spec.job.options.dsn or "") as connection:
        connection.execute("SET LOCAL timezone TO UTC")
        lenient(connection)
        names, rows = last_rows(connection, play.table, LOOKED_AT)
    shown = Counter(_frozen(dict(zip(names, row, strict=True))) for row in rows)
    expected = Counter(_expected(world, play))
    if _may_double(world):
        shown = Counter(set(shown))
    yield from _differing("peek shows rows that should not be there", shown - expected)
    if not _may_double(world) and shown.total() != min(LOOKED_AT, expected.total()):
        yield f"peek shows {shown.total()} rows of {expected.total()}"


def _receipts(world: World, play: Play) -> Iterator[str]:
    for (slot, offset), (fates, rows) in _places(world):
        place = play.at(slot)
        found = receipt(play.spec, place.partition, offset, place.topic, check=True)
        counted = found.rows == rows or _may_double(world)
        if found.fate.value not in fates or (found.fate == "landed" and not counted):
            right = f"{' or '.join(sorted(fates))}, {rows} rows"
            yield f"the receipt of {slot} {offset} says {found.fate}, {found.rows} rows; right is {right}"


def _places(world: World) -> Iterator[tuple[Place, tuple[frozenset[str], int]]]:
    """One record of each fate."""
    landed = Counter(row.place[:3] for row in world.rows)
    seen = set()
    for slot, log in world.log.items():
        for offset in sorted(log):
            place = (slot, offset)
            rows = landed[*slot, offset]
            fates = _fates(world, place, rows)
            if fates not in seen:
                seen.add(fates)
                yield place, (fates, rows)


def _fates(world: World, place: Place, rows: int) -> frozenset[str]:
    slot, offset = place
    if rows:
        return frozenset({"landed"})
    if world.dead[place]:
        return frozenset({"dead"})
    if offset >= world.positions[slot]:
        return frozenset({"waiting"})
    if place in world.lost:
        return frozenset({"unknown"})
    nothing = "no-row" if world.case.key else "filtered"
    return frozenset({nothing, "unknown"} if world.case.guarantee == "at-most-once" else {nothing})


def _audit(world: World, play: Play) -> Iterator[str]:
    allowed = _verdicts(world)
    found, why = _verdict(play)
    if found not in allowed:
        yield f"the audit says {found}, and it should be {' or '.join(sorted(allowed))}: {why}"
    elif world.case.tampered and not world.case.key and world.case.provenance and not world.repeated and world.rows:
        play.sql("DELETE FROM {table} WHERE ctid = (SELECT min(ctid) FROM {table})")
        if world.case.guarantee != "at-most-once" and _verdict(play)[0] == Verdict.HOLDS:
            yield "a row was taken away, and the audit says that all is well"


def _verdict(play: Play) -> tuple[str, str]:
    """The verdict, and the audit's reasons."""
    try:
        found = audit(of_pipeline(play.spec))
    except Usage as refusal:
        return "refused", str(refusal)
    reasons = [getattr(hop, "undecided", "") for hop in found.hops]
    reasons += [f"{one.code} {one.topic}/{one.partition} {one.offset} {one.note}" for one in found.findings[:FEW]]
    return found.verdict.value, found.undecided or "; ".join(reasons)


def _verdicts(world: World) -> set[str]:
    """A right table is never accused. Where the audit can judge, it says so."""
    case = world.case
    if case.existing in (Existing.GENERATED, Existing.MISSING, Existing.REQUIRED):
        counted = set() if case.provenance else {"refused"}  # where nothing was carried, nothing is there to count by
        twice = {"broken"} if world.repeated else set()  # spans overlap, also those of records that left no row
        return {"holds", "holds-in-part", "inconclusive", *counted, *twice}
    if world.repeated:
        doubled = not case.key and case.guarantee == "exactly-once" and _doubled(world)
        return {"broken", "inconclusive"} if doubled else {*map(str, Verdict), "refused"}
    if not case.provenance:
        return {"holds-in-part", "inconclusive", "refused"}  # rows are counted, no more
    stopped = world.positions != world.ends  # what waits may be bad: which event of a key has the row is open then
    uneven = stopped or case.transform is Behaviour.FILTERING or bool(world.dead)
    return {"holds", "inconclusive"} if case.key and uneven else {"holds"}


def _doubled(world: World) -> bool:
    return any(count > 1 for count in Counter(row.place for row in world.rows).values())


def _expected(world: World, play: Play) -> Iterator[tuple[Any, ...]]:
    for row in world.rows:
        yield _frozen(_columns(world, play, row))


def _columns(world: World, play: Play, row: Row) -> dict[str, Any]:
    case = world.case
    values = {name: row.values[name] for name in case.columns}
    if case.existing in FILLED:
        values["z"] = FILLED[case.existing]
    if case.provenance:
        topic, partition, offset, number = row.place
        values |= {"_topic": play.topics[topic], "_partition": partition, "_offset": offset, "_n": number}
    return values


def _frozen(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple((name, "NaN" if value != value else value) for name, value in sorted(row.items()))  # noqa: PLR0124


def _differing(what: str, rows: Counter[tuple[Any, ...]]) -> Iterator[str]:
    if rows:
        shown = "".join(f"\n    {count} x {dict(row)}" for row, count in list(rows.items())[:FEW])
        yield f"{what} ({rows.total()}):{shown}"
