"""JSON texts of every flat type, each with the value that a column must hold for it, or BAD. Plain data."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from math import inf, nan
from typing import Any


class Judgement(Enum):
    """What becomes of a value that no column can hold."""

    BAD = "bad"  # not JSON of the schema
    UNSTORABLE = "unstorable"  # of the schema, and yet no table takes it

    def __repr__(self) -> str:
        return self.name


BAD, UNSTORABLE = Judgement.BAD, Judgement.UNSTORABLE
DIGITS = "9" * 5_000


@dataclass(frozen=True)
class Cell:
    """A field's JSON text, and what it means."""

    text: str
    value: Any

    def __repr__(self) -> str:
        text = self.text if len(self.text) < 60 else f"{self.text[:25]}...{len(self.text)} characters"
        return f"{text} = {self.value!r}" if len(repr(self.value)) < 60 else text


NULL = Cell("null", None)


@dataclass(frozen=True)
class Kind:
    """A type of `source.schema`: PostgreSQL's name for it, values that are good, and values that are not."""

    declared: str
    postgres: str
    good: tuple[Cell, ...]
    bad: tuple[Cell, ...]

    def __repr__(self) -> str:
        return self.declared


def _kind(declared: str, postgres: str, good: dict[str, Any], bad: tuple[str, ...], lost: tuple[str, ...] = ()) -> Kind:
    unstorable = tuple(Cell(text, UNSTORABLE) for text in lost)
    return Kind(
        declared,
        postgres,
        tuple(Cell(text, value) for text, value in good.items()),
        (*(Cell(text, BAD) for text in bad), *unstorable),
    )


def _integer(declared: str, postgres: str, bits: int) -> Kind:
    most = 2 ** (bits - 1)
    good = {str(number): number for number in (0, 1, -1, 7, most - 1, -most)}
    return _kind(declared, postgres, good, (str(most), str(-most - 1), "1.0", '"1"', "true", "[]", DIGITS))


def _time(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


_NO_NUMBERS = ('"x"', "true", "{}", '"nan"')
_HUGE = {"1e99999999999999999999": inf, "-1e400": -inf}

KINDS: dict[str, Kind] = {
    kind.declared: kind
    for kind in (
        _kind("boolean", "boolean", {"true": True, "false": False}, ("1", '"true"', "0.0")),
        _integer("byte", "smallint", 8),
        _integer("short", "smallint", 16),
        _integer("int", "integer", 32),
        _integer("long", "bigint", 64),
        _kind(
            "float",
            "real",
            {"1.5": 1.5, "0.1": 0.1, "3": 3.0, '"NaN"': nan, '"-Infinity"': -inf, "-0.0": -0.0, **_HUGE},
            _NO_NUMBERS,
        ),
        _kind(
            "double",
            "double precision",
            {
                "0.1": 0.1,
                "1e-400": 0.0,
                "5e-324": 5e-324,
                "1.7976931348623157e308": 1.7976931348623157e308,
                '"NaN"': nan,
            }
            | {'"Infinity"': inf, "12": 12.0, **_HUGE},
            _NO_NUMBERS,
        ),
        _kind(
            "string",
            "text",
            {'""': "", '"x"': "x", '"quite long"': "quite long", '"\\u00e4\\ud83d\\ude00"': "ä😀", '"\\\\N"': "\\N"}
            | {'"\\u001b[31mred"': "\x1b[31mred", '"a\\tb\\n"': "a\tb\n", "12": "12", "true": "true", '"x   "': "x   "}
            | {'{"a":[1,null]}': '{"a":[1,null]}', f'"{"y" * 5_000}"': "y" * 5_000},
            ('"\\ud800"', '"x\\udfffy"'),
            ('"a\\u0000b"',),
        ),
        _kind(
            "decimal(6,2)",
            "numeric(6,2)",
            {
                "1.25": Decimal("1.25"),
                '"7.1"': Decimal("7.10"),
                "1.005": Decimal("1.01"),
                "-9999.99": Decimal("-9999.99"),
            }
            | {"0": Decimal("0.00"), "1e-400": Decimal("0.00")},
            ("12345.67", '"NaN"', '"Infinity"', "1e99999999999999999999", "1e400", "true", '"x"', DIGITS),
        ),
        _kind(
            "decimal(38,10)",
            "numeric(38,10)",
            {"9999999999999999999999999999.9999999999": Decimal("9999999999999999999999999999.9999999999")}
            | {"-1e-10": Decimal("-0.0000000001"), "12": Decimal(12)},
            ("1e38", '"NaN"'),
        ),
        _kind(
            "date",
            "date",
            {'"2024-02-29"': date(2024, 2, 29), '"0001-01-01"': date(1, 1, 1), '"9999-12-31"': date(9999, 12, 31)}
            | {'"99999-01-01"': "99999-01-01"},  # beyond Python's years, and not beyond PostgreSQL's
            ('"2023-02-29"', '"soon"', "true", '"99999999-01-01"'),
        ),
        _kind(
            "timestamp",
            "timestamp with time zone",
            {
                '"2024-02-29T12:00:00Z"': _time(2024, 2, 29, 12),
                '"2024-02-29T12:00:00.123456+02:00"': _time(2024, 2, 29, 10, 0, 0, 123456),
                '"2024-02-29 12:00:00"': _time(2024, 2, 29, 12),
                "1700000000": _time(2023, 11, 14, 22, 13, 20),
                '"0001-01-01T00:00:00Z"': _time(1, 1, 1),
                '"9999-12-31T23:59:59.999999Z"': _time(9999, 12, 31, 23, 59, 59, 999999),
            },
            (
                '"never"',
                "true",
                '"0001-01-01T00:00:00+23:59"',
                '"9999-12-31T23:59:59-23:59"',
                "99999999999999",
                "99999999999999999999",
            ),
        ),
        _kind(
            "binary",
            "bytea",
            {f'"{base64.b64encode(value).decode()}"': value for value in (b"", b"\x00\xff", b"bytes")},
            ('"!"', '"ab"', "true"),
        ),
    )
}

BROKEN = (
    b"",
    b"not json",
    b"[]",
    b"null",
    b'{"k": 1',
    b'{"k": 1}{"k": 2}',
    b"\xff\xfe",
    b'{"k": "\xff"}',
    b"\x1b[2J",
    b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"x": "\x00"}',
)  # values that are no JSON object at all
KEYS = (None, b"", b"\xff", b"\x00", b"x" * 300)  # Kafka's keys that name no row
TIMES = (1, 253_402_300_800_000, 9_223_372_036_854_776, 2**62)  # of records, in milliseconds: far out, and beyond

# What Spark's from_json takes for bad too. The engines differ in what they make of the rest: none of it wedges either.
ALSO_BAD_ON_SPARK = frozenset(
    {"128", "-129", "32768", "2147483648", "9223372036854775808", "1.0", '"1"', "1", '"true"', '"x"', "12345.67"}
    | {'"2023-02-29"', '"soon"', '"never"'}
)
BROKEN_ON_SPARK = (b"", b"not json", b"[]", b"null", b'{"k": 1}{"k": 2}', b'{"k": "\xff"}')
