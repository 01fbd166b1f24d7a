"""What is drawn: a pipeline, the table that it finds, and its history. Frozen, and told in words when it fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from model.queries import query
from model.values import BAD, UNSTORABLE, Cell, Kind

Slot = tuple[int, int]
"""A partition: the number of its topic among those that are read, and its own."""


class Behaviour(StrEnum):
    """What an arrow transform does beside taking the columns on."""

    AS_IS = "as_is"
    REORDERED = "reordered"  # its columns come in another order than the schema's
    WOBBLING = "wobbling"  # in an order that depends on the batch
    FILTERING = "filtering"  # keys that three divides have no row
    DOUBLING = "doubling"  # every event has two
    RAISING = "raising"  # on key 13


class Existing(StrEnum):
    """The table that a first run finds."""

    NONE = "none"  # it is made
    PLAIN = "plain"
    NARROW = "narrow"  # column a is a varchar(4)
    NOT_NULL = "not_null"  # column a
    CHECK = "check"  # k is not 7
    UNIQUE = "unique"  # append: an index on k
    DEFAULT = "default"  # one more column, which has a default
    GENERATED_TOO = "generated_too"  # one more column, which is generated
    GENERATED = "generated"  # column a is: nothing can be written there
    MISSING = "missing"  # it has no column a
    REQUIRED = "required"  # one more column that must be given


class Change(StrEnum):
    """What somebody does to the table while a run is under way; mended behind it."""

    RENAME = "rename"  # column a
    DROP = "drop"  # column a
    GONE = "gone"  # the table


@dataclass(frozen=True)
class Record:
    """One record, and what its value says: the fields' values, None for a tombstone, BAD."""

    slot: Slot
    key: bytes | None
    value: bytes | None
    means: Mapping[str, Any] | None
    time: int | None = None

    def __repr__(self) -> str:
        value = repr(self.value) if len(self.value or b"") < 200 else f"{self.value[:80]!r}... {len(self.value)} bytes"  # type: ignore[index, arg-type]
        time = f" at {self.time} ms" if self.time else ""
        return f"{self.slot[0]}/{self.slot[1]} {self.key!r}: {value}{time}"

    @property
    def tombstone(self) -> bool:
        return self.value is None

    @property
    def broken(self) -> bool:
        """It is no JSON of the schema."""
        return not self.tombstone and (self.means is None or BAD in self.means.values())

    @property
    def unstorable(self) -> bool:
        return self.means is not None and any(value is UNSTORABLE for value in self.means.values())


@dataclass(frozen=True)
class Crash:
    """The process dies right behind the step, at the so-manieth batch that comes there."""

    step: str
    number: int


@dataclass(frozen=True)
class Turn:
    """One part of the history: records come, positions are set back, and the pipeline runs once."""

    records: tuple[Record, ...] = ()
    back: int = 0  # how many offsets every position is set back by, before the run
    crash: Crash | None = None
    change: tuple[Change, int] | None = None  # what, and at the start of which batch of the run


@dataclass(frozen=True)
class Case:
    """A whole example."""

    guarantee: str
    mode: str
    key: tuple[str, ...]
    order_by: str | None
    deletes: bool
    provenance: bool
    dead_letter: bool
    max_share: float | None
    transform: Behaviour | None
    fields: tuple[tuple[str, Kind], ...]
    batch: int
    partitions: tuple[int, ...]  # of each topic
    existing: Existing
    turns: tuple[Turn, ...]
    engine: str = "python"
    tampered: bool = False  # at the end a row is taken away, and the audit must see it
    sql: bool = False  # the transform is a query, not a function

    @property
    def slots(self) -> list[Slot]:
        return [(topic, number) for topic, count in enumerate(self.partitions) for number in range(count)]

    @property
    def keyed(self) -> bool:
        """Is column k taken from Kafka's key? A tombstone has nothing else."""
        return self.deletes

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the rows, without those of their provenance."""
        return tuple(name for name, _ in self.fields)

    def kind(self, name: str) -> Kind:
        return dict(self.fields)[name]

    def function(self) -> str | None:
        if self.transform is None:
            return None
        return f"{'keyed_' if self.keyed else ''}{self.transform}"

    def _transform(self) -> dict[str, str]:
        return {"sql": query(self)} if self.sql else {"arrow": f"model.functions:{self.function()}"}

    def declared(self, topics: list[str], table: str, **more: Any) -> dict[str, Any]:
        """The pipeline file."""
        fields = ", ".join(f"{name} {kind.declared}" for name, kind in self.fields if not (self.keyed and name == "k"))
        options: dict[str, Any] = {"table": table, "mode": self.mode, "provenance": self.provenance}
        options |= {"key": list(self.key)} if self.key else {}
        options |= {"order_by": self.order_by} if self.order_by else {}
        options |= {"tombstones": "delete"} if self.deletes else {}
        share = {"dead_letters": {"max_share": self.max_share}} if self.max_share is not None else {}
        transform = {"transform": self._transform()} if self.transform else {}
        return {
            "name": table,
            "guarantee": self.guarantee,
            "engine": self.engine,
            "source": {"topics": topics, "value": "json", "schema": fields},
            **transform,
            "sink": {"format": "postgres", "options": options},
            "on_error": "dead_letter" if self.dead_letter else "stop",
            **share,
            "batch": {"records": self.batch},
            **more,
        }

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(
            f"a case of {self.mode}, {self.guarantee}, {sum(len(turn.records) for turn in self.turns)} records"
        )

    def story(self) -> Iterator[str]:
        """The history, line by line."""
        yield f"the table: {self.existing}"
        for number, turn in enumerate(self.turns, 1):
            yield f"turn {number}: {len(turn.records)} records come"
            yield from (f"    {record!r}" for record in turn.records[:40])
            if len(turn.records) > 40:
                yield f"    ... and so on to {turn.records[-1]!r}"
            if turn.back:
                yield f"    positions are set back by {turn.back}"
            if turn.change:
                yield f"    while it runs, at its batch {turn.change[1]}: {turn.change[0]}; mended behind the run"
            yield f"    it runs{f', and dies behind {turn.crash.step} {turn.crash.number}' if turn.crash else ''}"


@dataclass(frozen=True)
class Draft:
    """A record as it is drawn, before it has a slot."""

    number: int  # its key
    cells: tuple[tuple[str, Cell], ...] = ()
    tombstone: bool = False
    instead: bytes | None = None  # of its value
    key: bytes | None = b"-"  # instead of the number
    time: int | None = None
    spread: int = 0  # where keys are not kept together

    def value(self) -> bytes | None:
        if self.tombstone or self.instead is not None:
            return self.instead
        return ("{" + ", ".join(f'"{name}": {cell.text}' for name, cell in self.cells) + "}").encode()
