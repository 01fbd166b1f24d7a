"""Both engines take the same values for good, and make the same of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.local import Stack
from spark.flows import Flow

SCHEMA = "n long, i int, s string, d double, b boolean, m decimal(6,2), day date, t timestamp"
VALUES = [
    b'{"n": 1, "i": 2, "s": "x", "d": 1.5, "b": true, "m": 1.25, "day": "2024-02-29", "t": "2024-02-29T12:00:00Z"}',
    b'{"n": 9223372036854775807}',
    b'{"n": 9223372036854775808}',
    b'{"n": 1.0}',
    b'{"n": "1"}',
    b'{"i": 2147483648}',
    b'{"s": 12}',
    b'{"s": true}',
    b'{"s": {"a": [1, null]}}',
    b'{"s": "\\u00e4\\ud83d\\ude00"}',
    b'{"d": 1}',
    b'{"d": "NaN"}',
    b'{"d": "x"}',
    b'{"b": 1}',
    b'{"b": "true"}',
    b'{"m": 1.005}',
    b'{"m": "7.1"}',
    b'{"m": 12345.67}',
    b'{"day": "2023-02-29"}',
    b'{"day": "soon"}',
    b'{"t": "2024-02-29T12:00:00.123456+02:00"}',
    b'{"t": "2024-02-29 12:00:00"}',
    b'{"t": 1700000000}',
    b'{"t": "never"}',
    b'{"other": 1}',
    b"{}",
    b"[]",
    b"null",
    b"",
    b"not json",
    b'{"n": 1} {"n": 2}',
    b'{"n": 1}x',
    b'{"s": "\xff"}',
    b" \n{}\n ",
]


@pytest.mark.proof
def test_both_engines_take_the_same_values_for_good_and_make_the_same_of_them(stack: Stack, tmp_path: Path) -> None:
    flow = Flow(stack, tmp_path, partitions=1)
    flow.produce(range(len(VALUES)), dict(enumerate(VALUES)))
    source = {"topic": flow.name, "value": "json", "schema": SCHEMA}
    found: dict[str, Any] = {}
    for engine in ("spark", "python"):
        table = f"{flow.name}_{engine}"
        parts: dict[str, Any] = {"engine": engine, "name": table, "source": source, "transform": None}
        flow.run(**parts, options={"table": table}, on_error="dead_letter")
        rows = flow.sql(f"SELECT _offset, n, i, s, d::text, b, m, day, t FROM {table} ORDER BY _offset")
        dead = flow.sql(f'SELECT "offset" FROM {table}_dead ORDER BY "offset"')
        found[engine] = ({offset: row for offset, *row in rows}, [offset for (offset,) in dead])
    spark, python = found["spark"], found["python"]
    differing = {
        VALUES[at]: (spark[0].get(at, "bad"), python[0].get(at, "bad"))
        for at in range(len(VALUES))
        if spark[0].get(at) != python[0].get(at)
    }
    assert differing == {}
    assert spark[1] == python[1]
    assert (len(spark[0]), len(spark[1])) == (16, 18)
