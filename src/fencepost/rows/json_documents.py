"""A record's value as one JSON document, within the limits of Spark's reader; and as text, as Spark writes it.

Whatever the bytes are: a dictionary, or SchemaMismatch.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

MOST_DEEP = 500  # brackets in each other: Spark is told the same
MOST_DIGITS = 1_000  # of one number: Jackson, which Spark reads with, takes no more
LONGEST_NAME = 50_000  # of a field, as above

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_DIGIT = re.compile(r"\d")
# One half of a character that takes two, alone: no text can hold that, and Spark would make a question mark of it.
LONE_SURROGATE = (
    r"(?:^|[^\\])(?:\\\\)*(?:"
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_LONE_SURROGATE = re.compile(LONE_SURROGATE)


class SchemaMismatch(ValueError):
    """A value that is no JSON object, or that a declared type does not take."""


@dataclass(slots=True)
class Real:
    """A number with a point or an exponent, as it was written. Not frozen: that takes twice as long to make."""

    text: str

    def __str__(self) -> str:
        return self.text


_SHORT = json.JSONDecoder(parse_float=Real, parse_constant=Real)
scan: Callable[[str, int], tuple[Any, int]] = _SHORT.scan_once  # type: ignore[attr-defined]
"""One document of a text that is plain, and where it ends. Raises ValueError or StopIteration where there is none."""


def is_plain(text: str) -> bool:
    """Can nothing in it be too deep, too long, or half a character?"""
    return "\\u" not in text and _is_short(text)


def _is_short(text: str) -> bool:
    return len(text) <= MOST_DEEP or (len(text) <= MOST_DIGITS and _brackets(text) <= MOST_DEEP)


def _brackets(text: str) -> int:
    return text.count("[") + text.count("{")


def document_of(value: bytes) -> dict[str, Any]:
    """Raises SchemaMismatch."""
    try:
        document = _loaded(value.decode())
    except SchemaMismatch:
        raise
    except (ValueError, RecursionError) as error:
        raise SchemaMismatch(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise SchemaMismatch(f"not a JSON object but {type(document).__name__}")
    return cast(dict[str, Any], document)


def _loaded(text: str) -> Any:
    if "\\u" in text and _LONE_SURROGATE.search(text):
        raise SchemaMismatch("not JSON: half of a surrogate pair")
    if _is_short(text):
        return _SHORT.decode(text)  # nothing in it can be too deep or too long
    if _brackets(text) > MOST_DEEP and _depth(text) > MOST_DEEP:
        raise SchemaMismatch(f"not JSON: nested more than {MOST_DEEP} deep")
    named = _names_checked if len(text) > LONGEST_NAME else None
    return json.loads(text, parse_int=_whole, parse_float=_real, parse_constant=Real, object_pairs_hook=named)


def _depth(text: str) -> int:
    deep = deepest = 0
    for sign in _STRING.sub("", text):
        if sign in "[{":
            deep += 1
            deepest = max(deep, deepest)
        elif sign in "]}":
            deep -= 1
    return deepest


def _whole(text: str) -> int:
    return int(_short(text, text.removeprefix("-")))


def _real(text: str) -> Real:
    return Real(_short(text, "".join(_DIGIT.findall(text))))


def _short(text: str, digits: str) -> str:
    if len(digits) > MOST_DIGITS:
        raise SchemaMismatch(f"not JSON: a number of more than {MOST_DIGITS} digits")
    return text


def _names_checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if any(len(name) > LONGEST_NAME for name, _ in pairs):
        raise SchemaMismatch(f"not JSON: a name of more than {LONGEST_NAME} characters")
    return dict(pairs)


def as_text(given: Any) -> str:
    """A value where a text is declared: a text as it is, anything else as JSON in Spark's own writing."""
    return given if isinstance(given, str) else _written(given)


def _written(given: Any) -> str:
    match given:
        case str():
            return f'"{given.translate(_ESCAPED)}"'
        case bool() | None:
            return json.dumps(given)
        case Real():
            return _java(float(given.text))
        case list():
            return f"[{','.join(map(_written, given))}]"
        case dict():
            return f"{{{','.join(f'{_written(name)}:{_written(below)}' for name, below in given.items())}}}"
        case _:
            return str(given)


_ESCAPED = {code: f"\\u{code:04X}" for code in range(32)} | str.maketrans(
    {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
)


def _java(number: float) -> str:
    """As Java writes a double: 0.001, 1.0E10; and a text for what JSON has no number for."""
    if not math.isfinite(number):
        return f'"{"NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"}"'
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    exact = Decimal(repr(number)).normalize()
    first, *more = map(str, exact.as_tuple().digits)
    return f"{'-' if number < 0 else ''}{first}.{''.join(more) or '0'}E{exact.adjusted()}"
