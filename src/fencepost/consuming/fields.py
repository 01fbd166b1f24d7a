"""A JSON value's fields, as `source.schema` declares them: the types and the strictness of Spark's from_json.

A value that is not one JSON object of the schema is a bad record; a missing field is null, one too many is left out.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from fencepost.errors import Usage

_FIELD = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>\w+))\s*:?\s+"
    r"(?P<type>[a-z]+(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?)\s*(?:,|$)",
    re.IGNORECASE,
)
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\((\d+)(?:,(\d+))?\))?")
_WORDS = {"nan": math.nan, "infinity": math.inf, "+infinity": math.inf, "-infinity": -math.inf, "inf": math.inf}


class NotOfTheSchema(ValueError):
    """A value that the declared type does not take."""


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
        "string": (pa.string(), _text),
        "date": (pa.date32(), _date),
        "timestamp": (pa.timestamp("us", tz="UTC"), _timestamp),
        "binary": (pa.binary(), _binary),
    }
    if name in plain:
        return plain[name]
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1] or 10), int(match[2] or 0)
        return pa.decimal128(precision, scale), _decimal(precision, scale)
    raise Usage(f"source.schema: engine python has no type {name!r}", f"one of {', '.join(plain)} or decimal(p,s)")


def parse_value(value: bytes | None, fields: list[Field]) -> list[Any]:
    """The fields of one value, in their order; all null for a tombstone. Raises NotOfTheSchema."""
    if value is None:
        return [None] * len(fields)
    try:
        document = json.loads(value.decode(), parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise NotOfTheSchema(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise NotOfTheSchema(f"not a JSON object but {type(document).__name__}")
    found = []
    for field in fields:
        given = document.get(field.name)
        try:
            found.append(None if given is None else field.convert(given))
        except (ValueError, TypeError, OverflowError, InvalidOperation):
            raise NotOfTheSchema(f"{field.name} is {given!r}, not {field.type}") from None
    return found


def _boolean(given: Any) -> bool:
    if not isinstance(given, bool):
        raise NotOfTheSchema
    return given


def _integer(bits: int) -> Callable[[Any], int]:
    limit = 1 << (bits - 1)

    def convert(given: Any) -> int:
        if type(given) is not int or not -limit <= given < limit:
            raise NotOfTheSchema
        return given

    return convert


def _real(given: Any) -> float:
    if isinstance(given, str):
        return _WORDS[given.lower()] if given.lower() in _WORDS else float("not a number")
    if isinstance(given, bool):
        raise NotOfTheSchema
    return float(given)


def _text(given: Any) -> str:
    if isinstance(given, str):
        return given
    return json.dumps(given, default=float, separators=(",", ":")) if not isinstance(given, Decimal) else str(given)


def _decimal(precision: int, scale: int) -> Callable[[Any], Decimal]:
    step = Decimal(1).scaleb(-scale)

    def convert(given: Any) -> Decimal:
        if isinstance(given, bool | float | list | dict):
            raise NotOfTheSchema
        rounded = Decimal(given).quantize(step, ROUND_HALF_UP)
        if len(rounded.as_tuple().digits) > precision:
            raise NotOfTheSchema
        return rounded

    return convert


def _date(given: Any) -> date:
    if not isinstance(given, str):
        raise NotOfTheSchema
    return date.fromisoformat(given)


def _timestamp(given: Any) -> datetime:
    """A number counts seconds since 1970; a text without a zone is in UTC."""
    if isinstance(given, int) and not isinstance(given, bool):
        return datetime.fromtimestamp(given, UTC)
    if not isinstance(given, str):
        raise NotOfTheSchema
    parsed = datetime.fromisoformat(given)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _binary(given: Any) -> bytes:
    return base64.b64decode(given, validate=True)
