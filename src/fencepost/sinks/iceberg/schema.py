"""The columns of a table against those of the rows, by name and in Iceberg's own types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds

from fencepost.errors import Usage

if TYPE_CHECKING:
    from pyiceberg.table import Table

PARTITION = "_kafka_partition"  # `_partition` is a column of every Iceberg table: its own partition
RESERVED = {
    "_change_ordinal", "_change_type", "_commit_snapshot_id", "_deleted", "_file", "_last_updated_sequence_number",
    "_partition", "_pos", "_row_id", "_spec_id",
}  # fmt: skip
_FLAT = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
}


def in_table(rows: pa.Schema) -> pa.Schema:
    """The rows' columns by their names in the table."""
    return pa.schema([field.with_name(PARTITION) if field.name == "_partition" else field for field in rows])


def types_of(rows: pa.Schema) -> dict[str, str]:
    """Of a new table. Raises Usage for a column that no Iceberg table can have, and for names that Spark mixes up."""
    for name in rows.names:
        if name.lower() in RESERVED:
            raise Usage(f"column {name!r}: every Iceberg table has one of that name for itself", "rename it")
    seen: dict[str, str] = {}
    for name in rows.names:
        if (other := seen.setdefault(name.lower(), name)) is not name:
            raise Usage(
                f"columns {other!r} and {name!r} differ in case only: to Spark they are one", "rename one of them"
            )
    return {field.name: _type(field) for field in rows}


def lacking(table: Table, rows: pa.Schema) -> pa.Schema:
    """Those of the rows' columns that the table has not."""
    there = {field.name.lower() for field in table.schema().fields}
    return pa.schema([field for field in rows if field.name.lower() not in there])


def fitted(table: Table, name: str, rows: pa.Schema, evolves: bool = False) -> dict[str, str]:
    """The types of the rows' columns, which are those of the table. Raises Usage, by name, where they are not.

    `evolves`: those that it lacks will be added.
    """
    wanted, there = types_of(rows), {field.name.lower(): field for field in table.schema().fields}
    for column in () if evolves else lacking(table, rows).names:
        raise Usage(
            f"table {name!r} has no column {column!r} ({wanted[column]})",
            "leave it out in the transform, or let it be added: schema: evolve",
        )
    for column, kind in wanted.items():
        held = there.get(column.lower())
        if held is not None and str(held.field_type) != kind:
            raise Usage(
                f"column {column!r} is {kind}, but {held.field_type} in table {name!r}", "cast it in the transform"
            )
    ours = {column.lower() for column in wanted}
    for field in there.values():
        if field.required and field.name.lower() not in ours:
            raise Usage(
                f"column {field.name!r} of table {name!r} must not be null, and the rows have none of that name",
                "add it in the transform",
            )
    return wanted


def require_partitions(partition_by: tuple[str, ...], rows: Mapping[str, str]) -> None:
    for name in partition_by:
        if name not in rows:
            raise Usage(
                f"partition_by {name!r} is not a column of the rows ({', '.join(rows)})",
                "name one of them, or add it in the transform",
            )


def _type(field: pa.Field) -> str:
    if field.type in _FLAT:
        return _FLAT[field.type]
    if kinds.is_timestamp(field.type) and field.type.tz is not None and field.type.unit == "us":
        return "timestamptz"
    if kinds.is_decimal(field.type) and field.type.precision <= 38:
        return f"decimal({field.type.precision}, {field.type.scale})"
    raise Usage(
        f"column {field.name!r} is {field.type}, which an Iceberg table cannot have", "cast it in the transform"
    )
