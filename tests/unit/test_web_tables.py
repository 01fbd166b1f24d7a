"""Tables by their address."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from fencepost.web.rendering import environment
from fencepost.web.tables import PAGE, Asked, Columns, arranged


@dataclass(frozen=True)
class Row:
    name: str
    size: int | None


COLUMNS: Columns[Row] = {"name": lambda one: one.name, "size": lambda one: one.size}
ROWS = [Row("b", 2), Row("A", None), Row("c", 1)]


def names(query: dict[str, str]) -> list[str]:
    return [one.name for one in arranged(ROWS, COLUMNS, Asked(query), "name").rows]


def test_by_a_column_and_the_other_way_with_the_unknown_last() -> None:
    assert names({}) == ["A", "b", "c"]
    assert names({"sort": "size"}) == ["c", "b", "A"]
    assert names({"sort": "size", "dir": "desc"}) == ["b", "c", "A"]


@pytest.mark.parametrize(
    "query", [{"sort": "__class__"}, {"page": "-1"}, {"page": "9" * 500}, {"dir": "x"}, {"page": "\u0661"}]
)
def test_nonsense_in_the_address_is_the_usual_order(query: dict[str, str]) -> None:
    assert names(query) == ["A", "b", "c"]


def test_words_are_looked_for_in_every_text() -> None:
    assert names({"q": "a"}) == ["A"]
    assert names({"q": "a b"}) == []


def test_links_keep_the_rest_of_the_address() -> None:
    table = arranged(ROWS, COLUMNS, Asked({"q": "b&c", "sort": "name"}), "name")
    assert table.link("size") == "?q=b%26c&sort=size&dir=asc"
    assert table.link("name") == "?q=b%26c&sort=name&dir=desc"
    assert table.direction("name") == "ascending"


def test_long_tables_come_in_pages() -> None:
    many = [Row(f"{number:05}", number) for number in range(2 * PAGE + 1)]
    last = arranged(many, COLUMNS, Asked({"page": "3"}), "name")
    assert [one.size for one in last.rows] == [2 * PAGE]
    assert last.later is None
    assert last.earlier == "?page=2"


@pytest.mark.parametrize(("query", "said"), [({}, "3 rows"), ({"q": "a"}, "1 of 3 rows")])
def test_how_many_there_are_is_said_with_its_noun(query: dict[str, str], said: str) -> None:
    pager = environment().get_template("parts.html").module.pager  # type: ignore[attr-defined]
    assert said in pager(arranged(ROWS, COLUMNS, Asked(query), "name"), "row")
    assert "1 row<" in pager(arranged(ROWS[:1], COLUMNS, Asked({}), "name"), "row")
