"""Any bytes are a row or a bad record, by the Python engine's decoder: never another exception, and never for long."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fencepost.rows.json_columns import parse_columns
from fencepost.rows.json_documents import MOST_DEEP, SchemaMismatch
from fencepost.rows.json_fields import parse_fields, parse_value
from support.hostile import JSON_VALUES, VALUES, value_with

KINDS = ("boolean", "byte", "short", "int", "long", "float", "double", "string", "date", "timestamp", "binary")
DECIMALS = ("decimal(10,2)", "decimal(38,18)")
SCHEMA = ", ".join(f"v{number} {kind}" for number, kind in enumerate(KINDS + DECIMALS))
FIELDS = parse_fields(SCHEMA)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda more: st.lists(more) | st.dictionaries(st.text(), more),
)
NUMBERS = st.from_regex(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,25})?", fullmatch=True)
TIMES = st.from_regex(
    r"[+-]?[0-9]{1,8}(-[0-9]{1,3}(-[0-9]{1,3}"
    r"([ T][0-9]{1,2}(:[0-9]{1,2}){0,2}(\.[0-9]{0,9})?(Z|UTC|[+-][0-9:]{1,8})?)?)?)?",
    fullmatch=True,
)


def verdict(value: bytes | None) -> bool:
    """Is it good? Then Arrow takes what was made of it, and many at once are read as each by itself, or not at all."""
    at_once = parse_columns([b"{}", value], FIELDS)
    try:
        row = parse_value(value, FIELDS)
    except SchemaMismatch as bad:
        str(bad).encode()  # so that it can be told, and stored
        assert at_once is None
        return False
    columns = {field.name: pa.array([None, made], field.type) for field, made in zip(FIELDS, row, strict=True)}
    assert at_once is None or shown(at_once) == shown(columns)
    return True


def shown(columns: dict[str, pa.Array]) -> dict[str, str]:
    """As texts, in which NaN is NaN, and every time can be told."""
    return {name: f"{column.type} {column}" for name, column in columns.items()}


def each(literal: str) -> list[bytes]:
    return [f'{{"{field.name}": {literal}}}'.encode() for field in FIELDS]


@given(st.binary())
@example(b"")
def test_any_bytes_are_a_row_or_a_bad_record(value: bytes) -> None:
    verdict(value)


@settings(deadline=None)
@given(JSON)
def test_any_json_is_a_row_or_a_bad_record(value: Any) -> None:
    for literal in each(json.dumps(value)):
        verdict(literal)


@given(NUMBERS)
@example("1e99999999999999999999")
@example("1e-99999999999999999999")
@example("1e999999999")
@example("1e-999999999")
def test_any_number_is_a_row_or_a_bad_record(number: str) -> None:
    for literal in (*each(number), *each(f'"{number}"')):
        verdict(literal)


@given(TIMES)
@example("0001-01-01T00:00:00+23:59")
@example("6000000")
@example("294247-01-10T04:00:54.775808Z")
def test_any_time_is_a_row_or_a_bad_record(time: str) -> None:
    for literal in each(f'"{time}"'):
        verdict(literal)


@pytest.mark.parametrize("name", JSON_VALUES)
def test_hostile_literals(name: str) -> None:
    for value in (*each(JSON_VALUES[name]), value_with(JSON_VALUES[name])):
        verdict(value)


@pytest.mark.parametrize("name", VALUES)
def test_hostile_values(name: str) -> None:
    verdict(VALUES[name])


@pytest.mark.parametrize(
    "field", ['"v7": "a\\ud800b"', '"other": "a\\ud800"', '"\\udc00": 1', '"v7": "\\ude00\\ud83d"']
)
def test_half_a_character_is_bad_wherever_it_stands(field: str) -> None:
    assert not verdict(f"{{{field}}}".encode())
    assert verdict(b'{"v7": "\\ud83d\\ude00", "other": "\\\\ud800"}')


def test_depth_is_counted_outside_of_texts() -> None:
    brackets = "[" * (MOST_DEEP * 2)
    assert verdict(f'{{"v7": "{brackets}"}}'.encode())
    assert verdict(f'{{"x": {"[" * (MOST_DEEP - 1)}{"]" * (MOST_DEEP - 1)}}}'.encode())
    assert not verdict(f'{{"x": {"[" * MOST_DEEP}{"]" * MOST_DEEP}}}'.encode())
