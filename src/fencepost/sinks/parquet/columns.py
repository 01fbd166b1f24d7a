"""The columns of the rows against those of the files that are there: a folder has no schema but theirs."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.types as kinds

from fencepost.errors import Usage

FORBIDDEN = " ,;{}()\n\t="  # in a column's name, by Spark
_FLAT = {
    pa.bool_(): "boolean",
    pa.int8(): "int8",
    pa.int16(): "int16",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
}
_TEXTS = (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
_BYTES = (kinds.is_binary, kinds.is_large_binary, kinds.is_binary_view, kinds.is_fixed_size_binary)


def types_of(rows: pa.Schema, partition_by: Collection[str]) -> dict[str, str]:
    """Of new files. Raises Usage for columns that they cannot have."""
    seen: dict[str, str] = {}
    for name in rows.names:
        if set(FORBIDDEN) & set(name):
            raise Usage(
                f"column {name!r}: names in Parquet files have none of ' ,;{{}}()=', tab or line end", "rename it"
            )
        if (other := seen.setdefault(name.lower(), name)) is not name:
            raise Usage(
                f"columns {other!r} and {name!r} differ in case only: to Spark they are one", "rename one of them"
            )
    for name in partition_by:
        if name not in rows.names:
            raise Usage(
                f"partition_by {name!r} is not a column of the rows ({', '.join(rows.names)})",
                "name one of them, or add it in the transform",
            )
    if rows.names and set(rows.names) <= set(partition_by):
        raise Usage("partition_by names every column: nothing is left for the files", "leave one out")
    return {field.name: _required(field) for field in rows}


def fitted(path: str, rows: pa.Schema, there: pa.Schema, partition_by: Collection[str]) -> dict[str, str]:
    """The types of the rows' columns. Raises Usage where those of the files are others: readers would mix them up."""
    wanted = types_of(rows, partition_by)
    for name in wanted:
        if name not in there.names:
            raise Usage(
                f"the files in {path!r} have no column {name!r}", "leave it out in the transform, or use another folder"
            )
        held = _type(there.field(name).type)
        if name not in partition_by and held != wanted[name]:
            raise Usage(
                f"column {name!r} is {wanted[name]}, but {held} in the files in {path!r}", "cast it in the transform"
            )
    for name in there.names:
        if name not in wanted:
            raise Usage(
                f"the files in {path!r} have a column {name!r}, and the rows have none",
                "add it in the transform, or use another folder",
            )
    return wanted


def _required(field: pa.Field) -> str:
    kind = _type(field.type)
    if kind is None:
        raise Usage(
            f"column {field.name!r} is {field.type}, which is not written to Parquet files", "cast it in the transform"
        )
    return kind


def _type(kind: pa.DataType) -> str | None:
    """In Parquet's words; None for what is none of them."""
    if kind in _FLAT:
        return _FLAT[kind]
    if kinds.is_timestamp(kind):
        return "timestamp"
    if kinds.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if any(is_text(kind) for is_text in _TEXTS):
        return "string"
    return "binary" if any(are_bytes(kind) for are_bytes in _BYTES) else None
