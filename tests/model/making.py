"""What rows a record makes, and which of them a table refuses. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from model.case import Behaviour, Case, Existing, Record
from model.values import UNSTORABLE

LATEST = (2**63 - 1) // 1_000  # milliseconds: the last that microseconds can tell


@dataclass(frozen=True)
class Row:
    """One row of the table, or a delete of one."""

    values: Mapping[str, Any]
    place: tuple[int, int, int, int]  # topic, partition, offset, and which row of that event
    deletes: bool = False

    def without(self, column: str) -> Row:
        return replace(self, values={**self.values, column: None})


@dataclass(frozen=True)
class Made:
    """What comes of a record: rows, or the reason why it is bad whatever the table is."""

    rows: tuple[Row, ...] = ()
    reason: str = field(default="")


def unreadable(case: Case, record: Record) -> bool:
    """Spark's source does not give such a record to anybody: the run stops, dead letters or not."""
    return case.engine == "spark" and (record.time or 0) > LATEST


def made_of(case: Case, record: Record, offset: int) -> Made:
    if record.broken:
        return Made(reason="not JSON of the schema")
    if unreadable(case, record) or (case.transform and (record.time or 0) > LATEST):  # else nobody looks at it
        return Made(reason="its timestamp is out of range")
    values = dict.fromkeys(case.columns) | dict(record.means or {})
    if case.keyed:
        try:
            values["k"] = None if record.key is None else _number(record.key)
        except ValueError as error:
            return Made(reason=f"the key is no number: {error}")
    if case.transform is Behaviour.RAISING and values["k"] == 13:
        return Made(reason="the transform raises")
    count = _outputs(case, values)
    if count and any(values[name] is None for name in case.key):
        return Made(reason="its key is null")
    rows = tuple(
        Row(values, (*record.slot, offset, number), case.deletes and record.tombstone) for number in range(count)
    )
    return Made(rows)


def _number(key: bytes) -> int:
    text = key.decode()
    if not text.removeprefix("-").isdecimal():
        raise ValueError(text)
    return int(text)


def _outputs(case: Case, values: Mapping[str, Any]) -> int:
    match case.transform:
        case Behaviour.FILTERING:
            return 0 if values["k"] is not None and values["k"] % 3 == 0 else 1
        case Behaviour.DOUBLING:
            return 2
        case _:
            return 1


def wrong_types(case: Case, row: Row) -> str:
    """Why no column takes one of the row's values, on its way into the table already."""
    if any(value is UNSTORABLE for value in row.values.values()):
        return "a text with NUL"
    if case.existing is Existing.NARROW and len(row.values["a"] or "") > 4:
        return "a is too long"
    return ""


def refusal(case: Case, row: Row) -> str:
    """Why the table refuses the row when it gets there; a delete does not get there."""
    if row.deletes:
        return ""
    if case.existing is Existing.NOT_NULL and row.values["a"] is None:
        return "a is null"
    if case.existing is Existing.CHECK and row.values["k"] == 7:
        return "k is 7"
    return ""
