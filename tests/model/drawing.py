"""The strategies: pipelines that make sense, mostly, and histories in which odd records stand among good ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from model.case import Behaviour, Case, Change, Crash, Draft, Existing, Record, Slot, Turn
from model.values import (
    ALSO_BAD_ON_SPARK,
    BROKEN,
    BROKEN_ON_SPARK,
    KEYS,
    KINDS,
    NULL,
    TIMES,
    Cell,
    Kind,
)

NUMBERS = st.integers(0, 14)  # the keys: few, so that they come back
GUARANTEES = ("exactly-once", "at-least-once", "at-most-once")
ORDERS = {"int": "int", "timestamp": "timestamp", "double": "double"}
CRASHES = ("written", "advanced", "delivered", "started")


def _choice(*weighted: tuple[int, Any]) -> st.SearchStrategy[Any]:
    """One of these, so often; the first is the simplest."""
    return st.sampled_from([value for weight, value in weighted for _ in range(weight)])


@st.composite
def cases(draw: st.DrawFn, engine: str = "python") -> Case:
    mode = draw(_choice((4, "append"), (4, "upsert"), (2, "dedupe")))
    deletes = mode == "upsert" and draw(st.booleans())
    order = draw(st.sampled_from([None, None, *ORDERS])) if mode == "upsert" and not deletes else None
    key = () if mode == "append" else draw(_choice((3, ("k",)), (0 if deletes else 1, ("k", "k2"))))
    guarantee = (
        "exactly-once" if deletes and draw(_choice((9, True), (1, False))) else draw(st.sampled_from(GUARANTEES))
    )
    provenance = draw(_choice((5, True), (1, False)))
    dead_letter = draw(st.booleans()) if provenance else draw(_choice((9, False), (1, True)))
    transform = draw(st.sampled_from([*Behaviour] if deletes else [None, None, *Behaviour]))
    fields = draw(_fields(key, order))
    existing = draw(_existing(mode, dict(fields)["a"]))
    partitions = draw(st.sampled_from([(1,), (1,), (2,), (1, 1), (3,), (2, 1)]))
    bulk = draw(_choice((2 if deletes else 7, 0), (1, 1))) and draw(st.integers(257, 700))
    case = Case(
        guarantee,
        mode,
        key,
        "o" if order else None,
        deletes,
        provenance,
        dead_letter,
        None,
        transform,
        fields,
        1_000 if bulk else draw(st.sampled_from([1_000, 3, 1, 20])),
        partitions,
        existing,
        (),
        engine,
        draw(_choice((5, False), (1, True))),
        engine == "spark" and draw(st.booleans()),
    )
    return _with_turns(draw, case, bulk)


@st.composite
def _fields(draw: st.DrawFn, key: Sequence[str], order: str | None) -> tuple[tuple[str, Kind], ...]:
    found = [("k", KINDS["long"])]
    if "k2" in key:
        found.append(("k2", KINDS["string"]))
    if order:
        found.append(("o", KINDS[ORDERS[order]]))
    kinds = draw(st.lists(st.sampled_from(["string", *KINDS]), min_size=1, max_size=3))
    if draw(st.booleans()):
        kinds = [kinds[0]] * max(len(kinds), 2)  # of one type: nothing else tells columns apart
    return tuple(found + [(name, KINDS[kind]) for name, kind in zip("abc", kinds, strict=False)])


def _existing(mode: str, first: Kind) -> st.SearchStrategy[Any]:
    return _choice(
        (12, Existing.NONE),
        (2, Existing.PLAIN),
        (4 if first.declared == "string" else 0, Existing.NARROW),
        (2, Existing.NOT_NULL),
        (2, Existing.CHECK),
        (6 if mode == "append" else 0, Existing.UNIQUE),
        (1, Existing.DEFAULT),
        (1, Existing.GENERATED_TOO),
        (1, Existing.GENERATED),
        (1, Existing.MISSING),
        (1, Existing.REQUIRED),
    )


def _with_turns(draw: st.DrawFn, case: Case, bulk: int) -> Case:
    count = 2 if bulk else draw(st.integers(1, 3))
    turns = [_turn(draw, case, bulk if number == 1 else 0) for number in range(count)]
    share = draw(_choice((4, None), (1, 0.5), (1, 1.0))) if case.dead_letter else None
    return Case(**{**vars(case), "turns": tuple(turns), "max_share": share})


def _turn(draw: st.DrawFn, case: Case, bulk: int) -> Turn:
    drafts = draw(st.lists(_drafts(case), min_size=0 if bulk else 1, max_size=24))
    if bulk:
        first = draw(st.sampled_from([1_000, -1_000]))
        many = [Draft(number, _plain(case, number)) for number in range(first, first + bulk)]
        drafts = [*many, *drafts] if draw(st.booleans()) else [*drafts, *many]
    elif case.dead_letter and draw(_choice((7, False), (1, True))):
        drafts += [Draft(5, instead=b"one of many that are bad")] * draw(st.integers(10, 14))
    crash = (
        draw(st.builds(Crash, st.sampled_from(CRASHES), st.integers(1, 3))) if draw(_choice((5, 0), (1, 1))) else None
    )
    change = None
    if crash is None and case.existing in (Existing.NONE, Existing.PLAIN) and draw(_choice((5, 0), (1, 1))):
        change = draw(st.sampled_from(Change)), draw(st.integers(1, 2))
    back = draw(_choice((8, 0), (1, 2), (1, 50)))
    return Turn(tuple(_placed(case, draft) for draft in drafts), back, crash, change)


def _plain(case: Case, number: int) -> tuple[tuple[str, Cell], ...]:
    """The first good value of each column."""
    cells = {name: next(cell for cell in kind.good if cell.value != "") for name, kind in case.fields}
    return tuple((cells | {"k": Cell(str(number), number)}).items())


@st.composite
def _drafts(draw: st.DrawFn, case: Case) -> Draft:
    number = draw(NUMBERS)
    odd = draw(_choice((14, "good"), (4, "cell"), (2, "tombstone"), (1, "broken"), (1, "key"), (1, "late")))
    if case.deletes and odd == "good":
        odd = draw(_choice((3, "good"), (1, "tombstone")))
    spread = draw(st.integers(0, 5)) if case.order_by else 0
    time = draw(st.sampled_from(TIMES)) if draw(_choice((6, 0), (1, 1))) and odd in ("cell", "broken", "late") else None
    if odd == "tombstone":
        return Draft(number, tombstone=True, spread=spread)
    if odd == "broken":
        return Draft(number, instead=draw(st.sampled_from(_broken(case))), time=time)
    cells = {name: draw(_cells(case, name, odd == "cell")) for name in case.columns}
    given = dict(draw(st.permutations(list((cells | {"k": Cell(str(number), number)}).items()))))
    key = draw(st.sampled_from(KEYS)) if odd == "key" and (not case.key or case.keyed) else b"-"
    return Draft(number, tuple(given.items()), key=key, time=time, spread=spread)


def _broken(case: Case) -> Sequence[bytes]:
    return BROKEN_ON_SPARK if case.engine == "spark" else BROKEN


def _cells(case: Case, name: str, odd: bool) -> st.SearchStrategy[Cell]:
    if name == "k2":
        return st.sampled_from([Cell('"x"', "x"), Cell('"y"', "y")])
    kind = case.kind(name)
    bad = [cell for cell in kind.bad if case.engine == "python" or cell.text in ALSO_BAD_ON_SPARK]
    good = st.sampled_from([*kind.good, NULL])
    return st.one_of(good, st.sampled_from(bad)) if odd and bad else good


def _placed(case: Case, draft: Draft) -> Record:
    """Events of one key stand in one partition, unless order_by tells which is newer wherever they stand."""
    cells = {name: cell for name, cell in draft.cells if not (case.keyed and name == "k")}
    key = str(draft.number).encode()
    if "k2" in case.key and "k2" in cells:
        key += b":" + str(cells["k2"].value).encode()
    slots: list[Slot] = case.slots
    slot = slots[(draft.number + draft.spread) % len(slots)]
    means = {name: cell.value for name, cell in cells.items()}
    plain = Draft(draft.number, tuple(cells.items()), draft.tombstone, draft.instead)
    bad = draft.instead is not None
    return Record(slot, key if draft.key == b"-" else draft.key, plain.value(), None if bad else means, draft.time)
