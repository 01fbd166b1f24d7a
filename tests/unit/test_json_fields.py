"""A JSON value's fields by their declared types, without Spark."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Usage
from fencepost.rows.json_documents import SchemaMismatch
from fencepost.rows.json_fields import parse_fields, parse_value


def parsed(schema: str, value: bytes | None) -> list[Any]:
    """As a column holds them."""
    fields = parse_fields(schema)
    made = parse_value(value, fields)
    return [pa.array([one], field.type)[0].as_py() for field, one in zip(fields, made, strict=True)]


def test_a_schema_is_written_as_spark_writes_it() -> None:
    fields = parse_fields("id long, `the name` STRING, amount decimal(10, 2),at: timestamp")
    assert [(field.name, field.type) for field in fields] == [
        ("id", pa.int64()),
        ("the name", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
    ]


@pytest.mark.parametrize("schema", ["id", "id long amount int", "id array<int>", "id long,, b int", "id map<a,b>"])
def test_what_is_not_understood_is_refused_with_what_is(schema: str) -> None:
    with pytest.raises(Usage, match="engine python"):
        parse_fields(schema)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("long", "9223372036854775807", 9223372036854775807),
        ("int", "-2147483648", -2147483648),
        ("string", '"x"', "x"),
        ("string", "12", "12"),
        ("string", "1.10", "1.1"),
        ("string", "1e400", '"Infinity"'),
        ("string", "12345678.9", "1.23456789E7"),
        ("string", '{"a": "\\u00e4\\u001f\\n"}', '{"a":"\u00e4\\u001F\\n"}'),
        ("double", "1e99999999999999999999", math.inf),
        ("decimal(38,18)", "9223372036854775808", Decimal("9223372036854775808.000000000000000000")),
        ("decimal(10,2)", '"1,000"', Decimal("1000.00")),
        ("timestamp", '"2024-2-9 1:2:3 UTC"', datetime(2024, 2, 9, 1, 2, 3, tzinfo=UTC)),
        ("date", '"2024-02"', date(2024, 2, 1)),
        ("string", "true", "true"),
        ("string", '{"a": [1]}', '{"a":[1]}'),
        ("double", "1", 1.0),
        ("double", "1e3", 1000.0),
        ("double", '"Infinity"', math.inf),
        ("boolean", "true", True),
        ("decimal(10,2)", "1.005", Decimal("1.01")),
        ("decimal(10,2)", '"7"', Decimal("7.00")),
        ("date", '"2024-02-29"', date(2024, 2, 29)),
        ("timestamp", '"2024-02-29T12:00:00.123456+02:00"', datetime(2024, 2, 29, 10, 0, 0, 123456, UTC)),
        ("timestamp", '"2024-02-29 12:00:00"', datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("binary", '"AQI="', b"\x01\x02"),
        ("long", "null", None),
    ],
)
def test_values_of_each_type(kind: str, text: str, expected: object) -> None:
    assert parsed(f"v {kind}", f'{{"v": {text}}}'.encode()) == [expected]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("long", "1.0"),
        ("long", '"1"'),
        ("long", "true"),
        ("int", "2147483648"),
        ("byte", "128"),
        ("boolean", "1"),
        ("boolean", '"true"'),
        ("double", "true"),
        ("double", '"one"'),
        ("decimal(3,2)", "12.34"),
        ("decimal(3,2)", '"x"'),
        ("date", '"2023-02-29"'),
        ("date", "5"),
        ("timestamp", '"yesterday"'),
        ("binary", '"###"'),
        ("string", "tru"),
    ],
)
def test_values_that_are_not_of_their_type(kind: str, text: str) -> None:
    with pytest.raises(SchemaMismatch):
        parsed(f"v {kind}", f'{{"v": {text}}}'.encode())


@pytest.mark.parametrize("value", [b"", b"[1]", b'{"v": 1} {"v": 2}', b'{"v": 1', b"\xff", b"7", b'{"v": "\xff"}'])
def test_values_that_are_not_one_json_object(value: bytes) -> None:
    with pytest.raises(SchemaMismatch):
        parsed("v string", value)


def test_a_tombstone_a_missing_field_and_one_too_many() -> None:
    assert parsed("a int, b int", None) == [None, None]
    assert parsed("a int, b int", b'{"b": 2, "c": 3}') == [None, 2]


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.integers(-(2**63), 2**63 - 1) | st.none()))
def test_what_goes_in_comes_out(document: dict[str, int | None]) -> None:
    assert parsed("a long, b long", json.dumps(document).encode()) == [document.get("a"), document.get("b")]


@pytest.mark.parametrize(
    "kind", ["decimal(50,2)", "decimal(39)", "decimal(0)", "decimal(2,3)", "decimal(" + "9" * 5000 + ",2)"]
)
def test_a_decimal_that_cannot_be_had_is_refused(kind: str) -> None:
    with pytest.raises(Usage, match="1 to 38 digits"):
        parse_fields(f"amount {kind}")
