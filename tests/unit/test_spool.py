"""Rows that are read to their end before the first is used."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from fencepost.rows import spool
from fencepost.rows.spool import read_ahead


def batch(*values: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values)})


@pytest.mark.parametrize("in_memory", [0, 30, spool.IN_MEMORY])
@pytest.mark.parametrize(
    "parts",
    [
        [],
        [batch(1)],
        [batch(1, 2), batch(3), batch()],
        [batch(1), batch("other"), batch("columns"), batch(2)],
    ],
)
def test_they_are_the_same(parts: list[pa.RecordBatch], in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY", in_memory)
    found = list(read_ahead(iter(parts)))
    assert [one.to_pylist() for one in found] == [one.to_pylist() for one in parts]


def test_what_fails_on_the_way_fails_before_the_first_is_used() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        yield batch(2)
        raise ValueError("the third")

    with pytest.raises(ValueError, match="the third"):
        read_ahead(failing())


def test_what_is_read_already_is_not_read_again() -> None:
    once = read_ahead(iter([batch(1), batch(2)]))
    assert read_ahead(once) is once
