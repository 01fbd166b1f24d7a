"""Tables whose state is in the address: what is looked for, by which column, which page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

T = TypeVar("T")
PAGE = 200
LONGEST = 200  # characters that are looked for
Columns = Mapping[str, Callable[[T], Any]]


@dataclass(frozen=True)
class Asked:
    """What the address says: `?q=words&sort=column&dir=desc&page=2`, and whatever else it holds."""

    query: Mapping[str, str]

    @property
    def words(self) -> str:
        return self.query.get("q", "")[:LONGEST]

    def link(self, **changed: object) -> str:
        """The same address but for these; None leaves one out."""
        kept = {name: value for name, value in {**self.query, **changed}.items() if value not in (None, "")}
        return f"?{urlencode(kept)}"


@dataclass(frozen=True)
class Table(Generic[T]):
    """The rows of one page, and how they came to be in this order."""

    rows: Sequence[T]
    asked: Asked
    sort: str
    descending: bool
    total: int  # before anything was looked for
    found: int
    page: int

    def link(self, column: str) -> str:
        """By this column; once more: the other way round."""
        turned = "asc" if column != self.sort or self.descending else "desc"
        return self.asked.link(sort=column, dir=turned, page=None)

    def direction(self, column: str) -> str:
        """As a screen reader is told."""
        return ("descending" if self.descending else "ascending") if column == self.sort else "none"

    @property
    def earlier(self) -> str | None:
        return self.asked.link(page=self.page - 1) if self.page > 1 else None

    @property
    def later(self) -> str | None:
        return self.asked.link(page=self.page + 1) if self.page * PAGE < self.found else None


def arranged(rows: Sequence[T], columns: Columns[T], asked: Asked, sort: str, *, descending: bool = False) -> Table[T]:
    """`columns`: what each is sorted by; texts are what words are looked for in. `sort`: unless the address says."""
    column = asked.query.get("sort", sort)
    by = columns.get(column) or columns[sort]
    column = column if column in columns else sort
    down = asked.query["dir"] == "desc" if "dir" in asked.query else descending
    words = asked.words.casefold().split()
    found = [row for row in rows if all(any(word in text for text in _texts(row, columns)) for word in words)]
    known = [row for row in found if by(row) is not None]
    unknown = [row for row in found if by(row) is None]
    ordered = [*sorted(known, key=lambda row: _comparable(by(row)), reverse=down), *unknown]
    page = min(max(_number(asked.query.get("page")), 1), max(-(-len(ordered) // PAGE), 1))
    return Table(ordered[(page - 1) * PAGE : page * PAGE], asked, column, down, len(rows), len(found), page)


def _texts(row: T, columns: Columns[T]) -> list[str]:
    return [value.casefold() for column in columns.values() if isinstance(value := column(row), str)]


def _comparable(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def _number(given: str | None) -> int:
    return int(given) if given and given.isascii() and given.isdecimal() and len(given) < 9 else 1
