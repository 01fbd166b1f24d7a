"""Values as most records have them are read in a shorter way: with the same result as all others."""

from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest

from fencepost.rows import json_times
from fencepost.rows.json_columns import parse_columns
from fencepost.rows.json_documents import MOST_DEEP, SchemaMismatch, document_of
from fencepost.rows.json_fields import parse_fields, parse_value


def read(text: str, way: str) -> int | None:
    try:
        return int(getattr(json_times, way)(text))
    except ValueError:
        return None


def drawn(random: Random) -> str:
    """Times that are usual, and some that no calendar has."""
    year, month, day = random.choice([0, 1, 1900, 2000, 2026, 9999]), random.randint(0, 13), random.randint(0, 32)
    hour, minute, second = random.randint(0, 24), random.randint(0, 60), random.randint(0, 60)
    part = random.choice(["", ".", f".{random.randrange(10**7)}"])
    between, zone = random.choice("T "), random.choice(["", "Z", "z", "+00:00", "+19:00", "-01"])
    return f"{year:04}-{month:02}-{day:02}{between}{hour:02}:{minute:02}:{second:02}{part}{zone}"


def test_usual_times_are_read_like_all_others() -> None:
    random = Random(1)
    texts = [drawn(random) for _ in range(20_000)]
    found = {text: read(text, "micros_of") for text in texts}
    assert found == {text: read(text, "_micros") for text in texts}
    assert any(found.values())
    assert None in found.values()


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1.5, "b": [1, -0, 1e5, NaN, {"c": -Infinity}], "a": 2.50}',
        '{"a": "\\u00e9\\ud83d\\ude00", "n": ' + "9" * 400 + "}",
        '{"a": 1} {"b": 2}',
        "[1.0]",
        "\ufeff{}",
        '{"a": "\\ud800"}',
        "",
    ],
)
def test_short_documents_are_read_like_long_ones(text: str) -> None:
    def read_document(value: str) -> object:
        try:
            return document_of(value.encode())
        except SchemaMismatch:
            return None

    assert read_document(text) == read_document(text + " " * MOST_DEEP)


@pytest.mark.parametrize(
    "number", ["99.994", "99.995", "-99.994", "-99.995", "0", "0e9", "1e1", "1e2", "1e-400", "9e99"]
)
def test_a_decimal_has_no_more_digits_than_declared(number: str) -> None:
    fields = parse_fields("n decimal(4,2)")
    fits = abs(Decimal(number)) < Decimal("99.995")
    try:
        (found,) = parse_value(f'{{"n": {number}}}'.encode(), fields)
    except SchemaMismatch:
        assert not fits
    else:
        assert fits
        assert len(found.as_tuple().digits) <= 4


def test_usual_values_are_read_many_at_once() -> None:
    fields = parse_fields("id long, name string, good boolean, price decimal(10,2), at timestamp")
    values = [
        b'{"id": 1, "name": "a", "good": true, "price": 1.5, "at": "2026-01-01T00:00:00Z", "more": [1]}',
        None,
        b' {"name": null, "id": -9223372036854775808}\n',
    ]
    found = parse_columns(values, fields)
    assert found is not None
    rows = [parse_value(value, fields) for value in values]
    assert [column.to_pylist() for column in found.values()] == [
        pa.array(column, field.type).to_pylist() for field, column in zip(fields, zip(*rows, strict=True), strict=True)
    ]


@pytest.mark.parametrize(
    "odd",
    [
        b'{"id": 1} {"id": 2}',
        b'{"id": true}',
        b'{"id": 9223372036854775808}',
        b'{"id": "1"}',
        b'{"name": "\\ud800"}',
        b"[]",
        b"",
        b"\xff",
        b'{"name": ' + b"1" * 1001 + b"}",
        b'{"name": ' + b"[" * 501 + b"]" * 501 + b"}",
    ],
)
def test_odd_values_are_taken_one_by_one(odd: bytes) -> None:
    assert parse_columns([b'{"id": 1}', odd], parse_fields("id long, name string")) is None
