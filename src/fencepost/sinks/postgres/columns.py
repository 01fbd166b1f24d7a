"""Which Arrow column fits which PostgreSQL column: made new, or compared with a table that exists."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from fencepost.errors import Usage
from fencepost.rows.json_column import TOMBSTONE_NAME, holds_json


@dataclass(frozen=True)
class Column:
    """A column of the target table."""

    name: str
    type: str  # as PostgreSQL prints it: bigint, numeric(10,2), timestamp with time zone
    required: bool = False  # NOT NULL and nothing fills it in


TOMBSTONE = Column(TOMBSTONE_NAME, "boolean")  # in stages alone


_PLAIN = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp without time zone",
    pa.duration("us"): "interval",
}


LONGEST = 63  # bytes of a name: PostgreSQL cuts the rest off


def type_for(field: pa.Field) -> str:
    """The PostgreSQL type that a new table gets for the column."""
    if len(field.name.encode(errors="replace")) > LONGEST:
        raise Usage(f"the name of column {field.name!r} is longer than PostgreSQL's {LONGEST} bytes", "shorten it")
    if holds_json(field):
        return "jsonb"
    if pa.types.is_timestamp(field.type) and field.type.unit == "us" and field.type.tz:
        return "timestamp with time zone"
    if pa.types.is_decimal128(field.type):
        return f"numeric({field.type.precision},{field.type.scale})"
    try:
        return _PLAIN[field.type]
    except KeyError:
        raise Usage(
            f"column {field.name!r} has type {field.type}, which PostgreSQL has no type for",
            "cast it in the transform, or turn it into JSON with to_json",
        ) from None


def columns_for(schema: pa.Schema) -> tuple[Column, ...]:
    """The columns of a table that is made for this schema."""
    return tuple(Column(field.name, type_for(field)) for field in schema)


_INTEGER_DIGITS = {"smallint": 5, "integer": 10, "bigint": 19}
_TIMES = ("timestamp without time zone", "timestamp with time zone", "interval")
_WIDER: Mapping[str, Sequence[str]] = {
    "smallint": ("smallint", "integer", "bigint"),
    "integer": ("integer", "bigint"),
    "real": ("real", "double precision"),
    "text": ("text", "character varying", "json", "jsonb"),
    "jsonb": ("jsonb", "json", "text"),
}


def fits(made: str, there: str) -> bool:
    """May a column that would be made as `made` go into one that is `there`, with no value mangled?"""
    name, numbers = _parts(there)
    if name == "numeric":
        return _fits_numeric(made, numbers)
    if name in _TIMES and numbers not in ((), (6,)):
        return False  # it would round the microseconds off
    return name in _WIDER.get(_parts(made)[0], (made,))


def _parts(type_name: str) -> tuple[str, tuple[int, ...]]:
    """`numeric(10,2)` is ("numeric", (10, 2)); `character varying(80)` is ("character varying", (80,))."""
    match = re.fullmatch(r"([a-z ]+)\(([\d,]+)\)(.*)", type_name)
    if not match:
        return type_name, ()
    return match[1] + match[3], tuple(int(number) for number in match[2].split(","))


def longest_text(column: Column) -> int | None:
    """How many characters a `character varying(80)` takes; None where there is no limit."""
    name, numbers = _parts(column.type)
    return numbers[0] if name == "character varying" and numbers else None


def _fits_numeric(made: str, there: tuple[int, ...]) -> bool:
    name, numbers = _parts(made)
    if name in _INTEGER_DIGITS:
        numbers = (_INTEGER_DIGITS[name], 0)
    elif name != "numeric":
        return False
    if not there:
        return True
    (precision, scale), (room, there_scale) = numbers, (*there, 0)[:2]
    return there_scale >= scale and room - there_scale >= precision - scale


def match_columns(schema: pa.Schema, table: str, there: Sequence[Column]) -> tuple[Column, ...]:
    """The target columns for the schema, in its order; a Usage that names every column that does not fit."""
    by_name = {column.name: column for column in there}
    problems = [
        *_each(schema, lambda field: _problem(field, by_name.get(field.name))),
        *(f"{column.name!r} is required there and not given" for column in there if _left_out(column, schema)),
    ]
    if problems:
        missing = [field for field in schema if field.name not in by_name]
        raise Usage(
            f"table {table!r} does not fit the transform: " + "; ".join(problems),
            _added(table, missing) if len(missing) == len(problems) else "change the transform or the table",
        )
    return tuple(by_name[field.name] for field in schema)


def _added(table: str, missing: Sequence[pa.Field]) -> str:
    """The statement after which the table has these columns too."""
    name = ".".join(map(_quoted, table.split(".")))
    added = ", ".join(f"ADD COLUMN {_quoted(field.name)} {type_for(field)}" for field in missing)
    return f"drop it in the transform, or: ALTER TABLE {name} {added}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _each(schema: pa.Schema, check: Callable[[pa.Field], str | None]) -> list[str]:
    return [problem for problem in map(check, schema) if problem]


def _problem(field: pa.Field, there: Column | None) -> str | None:
    if there is None:
        return f"{field.name!r} is missing there"
    made = type_for(field)
    return None if fits(made, there.type) else f"{field.name!r} is {made} here and {there.type} there"


def _left_out(column: Column, schema: pa.Schema) -> bool:
    return column.required and column.name not in schema.names


def arrow_type(column: Column, given: pa.DataType) -> pa.DataType:
    """What the given Arrow column is cast to, so that its binary form is the target's."""
    name, _ = _parts(column.type)
    if name == "numeric":
        return given if pa.types.is_decimal(given) else pa.decimal128(19, 0)
    wanted = {made: arrow for arrow, made in _PLAIN.items() if arrow != pa.int8()}
    return wanted.get(name, given)
