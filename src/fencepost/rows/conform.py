"""The columns of a batch against those with which its transform was tried: by name, each with the same values."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from fencepost.errors import Refused
from fencepost.rows.json_column import holds_json

REMEDY = "have the function give the same columns, of the same types, for every batch, as for an empty one"


def conformed(made: pa.RecordBatch, wanted: pa.Schema, loose: str, function: object) -> pa.RecordBatch:
    """The batch with the wanted columns, in their order and of their types. `loose`: whose type may be another.

    Raises Refused for a column that is missing, strange or there twice, or of a type that means something else; what
    Arrow raises for a value that the wanted type does not hold.
    """
    if made.schema.equals(wanted, check_metadata=True):  # which says whether a text is JSON
        return made
    _require_names(made.schema.names, wanted.names, function)
    columns = [made.column(field.name) if field.name == loose else _as(made, field, function) for field in wanted]
    fields = [made.schema.field(field.name) if field.name == loose else field for field in wanted]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def twice(names: Iterable[str]) -> str | None:
    """The first name that is there more than once."""
    given = list(names)
    return next((name for name in given if given.count(name) > 1), None)


def _require_names(given: list[str], wanted: list[str], function: object) -> None:
    problems = [f"no column {name!r}" for name in wanted if name not in given]
    problems += [f"a column {name!r}" for name in given if name not in wanted]
    if (repeated := twice(given)) is not None:
        problems.append(f"column {repeated!r} twice")
    if problems:
        raise Refused(f"{function} gives {', '.join(problems)} for this batch, unlike in the trial run", REMEDY)


def _as(made: pa.RecordBatch, wanted: pa.Field, function: object) -> pa.Array:
    given = made.schema.field(wanted.name)
    if given.type == pa.null() or (_holds(given.type, wanted.type) and holds_json(given) == holds_json(wanted)):
        return made.column(wanted.name).cast(wanted.type)
    kind = "JSON" if holds_json(given) else given.type
    there = "JSON" if holds_json(wanted) else wanted.type
    raise Refused(f"{function} gives {wanted.name!r} as {kind} for this batch, and as {there} in the trial run", REMEDY)


def _holds(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Does a cast keep every value, or raise? It is not asked of casts that round, cut or take for granted."""
    if pa.types.is_dictionary(given):
        return _holds(given.value_type, wanted)
    if pa.types.is_floating(given) and pa.types.is_floating(wanted):
        return bool(given.bit_width <= wanted.bit_width)
    ours, theirs = _family(given), _family(wanted)
    return (ours == theirs or (ours, theirs) in _NUMBERS) and _may_be_cast(given, wanted)


def _may_be_cast(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Can Arrow cast any value of the one to the other? It does not take int64 for decimal(9,2), for example."""
    try:
        pa.nulls(1, given).cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


_NUMBERS = {("integer", "float"), ("float", "integer"), ("integer", "decimal"), ("decimal", "integer")}


def _family(kind: pa.DataType) -> str:
    """Types of one family hold the same kind of value, in more or less room."""
    families = {
        "integer": pa.types.is_integer,
        "float": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "text": lambda one: pa.types.is_string(one) or pa.types.is_large_string(one) or pa.types.is_string_view(one),
        "bytes": lambda one: pa.types.is_binary(one) or pa.types.is_large_binary(one) or pa.types.is_binary_view(one),
        "moment": lambda one: pa.types.is_timestamp(one) and one.tz is not None,
        "timestamp": lambda one: pa.types.is_timestamp(one) and one.tz is None,
        "duration": pa.types.is_duration,
    }
    return next((family for family, belongs in families.items() if belongs(kind)), str(kind))
