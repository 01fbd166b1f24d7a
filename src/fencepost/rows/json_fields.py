"""A JSON value's fields, as `source.schema` declares them: the types and the strictness of Spark's from_json.

A value that is not one JSON object of the schema is a bad record; a missing field is null, one too many is left out.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from fencepost.errors import Usage
from fencepost.rows.json_documents import Real, SchemaMismatch, as_text, document_of
from fencepost.rows.json_times import days_of, micros_of

_FIELD = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>\w+))\s*:?\s+"
    r"(?P<type>[a-z]+(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?)\s*(?:,|$)",
    re.IGNORECASE,
)
MOST_DIGITS = 38  # of a decimal, here and in Spark
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\((\d+)(?:,(\d+))?\))?")
_WORDS = ("NaN", "Infinity", "+Infinity", "-Infinity", "+INF", "-INF")  # as texts; in another case they are bad
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?")
_EXACT = Context(prec=400)  # more than any number that fits has digits
_SHOWN = 200  # characters of a value in a reason


@dataclass(frozen=True)
class Field:
    """One declared field."""

    name: str
    type: pa.DataType
    convert: Callable[[Any], Any]


def parse_fields(text: str) -> list[Field]:
    """`id long, amount decimal(10,2)`, as Spark writes schemas. Raises Usage for what this engine does not know."""
    fields: list[Field] = []
    at = 0
    while at < len(text):
        match = _FIELD.match(text, at)
        if match is None:
            raise Usage(
                f"source.schema: engine python does not understand {text[at:].strip()!r}",
                "flat fields only (bigint, int, string, double, boolean, decimal(p,s), date, timestamp, binary); "
                "take the value as it is and parse it in transform.arrow, or use engine: spark",
            )
        kind, convert = _kind(re.sub(r"\s", "", match["type"]).lower())
        fields.append(Field(match["quoted"] or match["name"], kind, convert))
        at = match.end()
    return fields


def _kind(name: str) -> tuple[pa.DataType, Callable[[Any], Any]]:
    plain: dict[str, tuple[pa.DataType, Callable[[Any], Any]]] = {
        "boolean": (pa.bool_(), _boolean),
        "byte": (pa.int8(), _integer(8)),
        "tinyint": (pa.int8(), _integer(8)),
        "short": (pa.int16(), _integer(16)),
        "smallint": (pa.int16(), _integer(16)),
        "int": (pa.int32(), _integer(32)),
        "integer": (pa.int32(), _integer(32)),
        "long": (pa.int64(), _integer(64)),
        "bigint": (pa.int64(), _integer(64)),
        "float": (pa.float32(), _real),
        "real": (pa.float32(), _real),
        "double": (pa.float64(), _real),
        "string": (pa.string(), as_text),
        "date": (pa.date32(), _date),
        "timestamp": (pa.timestamp("us", tz="UTC"), _timestamp),
        "binary": (pa.binary(), _binary),
    }
    if name in plain:
        return plain[name]
    if match := _DECIMAL.fullmatch(name):
        precision, scale = (int((number or default)[:9]) for number, default in ((match[1], "10"), (match[2], "0")))
        if not 0 < precision <= MOST_DIGITS or scale > precision:
            raise Usage(
                f"source.schema: {name} is not possible",
                f"a decimal has 1 to {MOST_DIGITS} digits, and its scale no more",
            )
        return pa.decimal128(precision, scale), _decimal(precision, scale)
    raise Usage(f"source.schema: engine python has no type {name!r}", f"one of {', '.join(plain)} or decimal(p,s)")


def parse_value(value: bytes | None, fields: list[Field]) -> list[Any]:
    """The fields of one value, in their order; all null for a tombstone. Raises SchemaMismatch, and nothing else."""
    if value is None:
        return [None] * len(fields)
    document = document_of(value)
    found = []
    for field in fields:
        given = document.get(field.name)
        try:
            found.append(None if given is None else field.convert(given))
        except (ValueError, TypeError, OverflowError, InvalidOperation):
            raise SchemaMismatch(f"{field.name} is {_shown(given)}, not {field.type}") from None
    return found


def _shown(given: Any) -> str:
    text = given.text if isinstance(given, Real) else ascii(given)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _boolean(given: Any) -> bool:
    if not isinstance(given, bool):
        raise SchemaMismatch
    return given


def _integer(bits: int) -> Callable[[Any], int]:
    limit = 1 << (bits - 1)

    def convert(given: Any) -> int:
        if type(given) is not int or not -limit <= given < limit:
            raise SchemaMismatch
        return given

    return convert


def _real(given: Any) -> float:
    """What is too large is infinite."""
    if isinstance(given, str) and given in _WORDS:
        return float(given)
    if isinstance(given, Real) or type(given) is int:
        return float(str(given))
    raise SchemaMismatch


def _decimal(precision: int, scale: int) -> Callable[[Any], Decimal]:
    step = Decimal(1).scaleb(-scale)

    def convert(given: Any) -> Decimal:
        if isinstance(given, str):
            given = given.replace(",", "")
        elif not isinstance(given, Real) and type(given) is not int:
            raise SchemaMismatch
        text = str(given)
        if not _NUMBER.fullmatch(text):
            raise SchemaMismatch
        rounded = Decimal(text).quantize(step, ROUND_HALF_UP, _EXACT)
        if rounded.adjusted() >= precision - scale:
            raise SchemaMismatch
        return rounded

    return convert


def _date(given: Any) -> int:
    """Days since 1970."""
    if not isinstance(given, str):
        raise SchemaMismatch
    return _within(31, days_of(given))


def _timestamp(given: Any) -> int:
    """Microseconds since 1970. A number counts seconds; a text without a zone is in UTC."""
    if type(given) is int:
        return _within(63, given * 1_000_000)
    if not isinstance(given, str):
        raise SchemaMismatch
    return _within(63, micros_of(given))


def _within(bits: int, number: int) -> int:
    if not -(1 << bits) <= number < 1 << bits:
        raise SchemaMismatch
    return number


def _binary(given: Any) -> bytes:
    return base64.b64decode(given, validate=True)
