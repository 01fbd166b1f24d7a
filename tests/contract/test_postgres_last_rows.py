"""What `peek` shows: the rows that were written last, wherever in the table they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

import pytest

from contract.postgres_target import Target
from fencepost.local import Stack
from fencepost.sinks.postgres.last_rows import last_rows
from fencepost.sinks.postgres.reading import reader


class Peeked(Target):
    dsn = ""

    def do(self, text: LiteralString) -> None:
        self.connection.execute(text.replace("TABLE_", self.name))

    def ids(self, most: int = 3, table: str = "TABLE_") -> list[int]:
        with reader(self.dsn) as connection:
            names, rows = last_rows(connection, table.replace("TABLE_", self.name), most)
        assert names == ["id", "v"]
        return [row[0] for row in rows]


@pytest.fixture
def peeked(stack: Stack, target: Target) -> Iterator[Peeked]:
    peeked = Peeked(target.connection, target.name)
    peeked.dsn = stack.dsn
    yield peeked
    target.connection.execute(f"DROP TABLE IF EXISTS {target.name} CASCADE")


FILL = "INSERT INTO TABLE_ SELECT n, repeat('x', 500) FROM generate_series({}, {}) AS n"


def test_of_an_empty_table_nothing(peeked: Peeked) -> None:
    peeked.make("id bigint, v text")
    assert peeked.ids() == []


def test_rows_are_found_behind_pages_that_hold_none(peeked: Peeked) -> None:
    peeked.make("id bigint, v text")
    peeked.do(FILL.format(1, 20_000))
    assert peeked.ids() == [19_998, 19_999, 20_000]
    peeked.do("DELETE FROM TABLE_ WHERE id > 100")
    assert peeked.ids() == [98, 99, 100]
    assert peeked.ids(1_000) == list(range(1, 101))
    peeked.do("DELETE FROM TABLE_ WHERE id > 1")
    assert peeked.ids() == [1]


def test_of_a_partitioned_table_the_last_of_all_partitions(peeked: Peeked) -> None:
    peeked.do("CREATE TABLE TABLE_ (id bigint, v text) PARTITION BY HASH (id)")
    assert peeked.ids() == []
    for at in range(2):
        peeked.do(f"CREATE TABLE TABLE__{at} PARTITION OF TABLE_ FOR VALUES WITH (MODULUS 2, REMAINDER {at})")
    for id_ in range(20):
        peeked.do(FILL.format(id_, id_))
    assert peeked.ids() == [17, 18, 19]


def test_of_a_view_any_rows(peeked: Peeked) -> None:
    peeked.make("id bigint, v text")
    peeked.do(FILL.format(1, 2))
    peeked.do("CREATE VIEW TABLE__seen AS SELECT * FROM TABLE_")
    assert sorted(peeked.ids(table="TABLE__seen")) == [1, 2]
