"""The columns of a table against those of the rows, by name and in Delta's own types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fencepost.errors import Usage
from fencepost.sinks.lake.merging import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.schema import Schema

APPEND_ONLY = "delta.appendOnly"
FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")  # in a column's name, by Parquet and by Delta


# of tables to which deltalake commits
FEATURES = {
    *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "timestampNtz"),
    *("columnMapping", "deletionVectors", "v2Checkpoint", "variantType"),
}


def require_features(path: str, table: DeltaTable, merges: bool) -> None:
    """Raises Usage for a table to which deltalake, which makes the commits without rows, commits nothing.

    `merges`: rows are replaced, which not every table lets happen.
    """
    unknown = sorted(set(table.protocol().writer_features or ()) - FEATURES)
    if unknown:
        raise Usage(
            f"table {path!r} has features to which deltalake cannot commit: {', '.join(unknown)}",
            "use a table without them",
        )
    if merges and table.metadata().configuration.get(APPEND_ONLY, "false").lower() == "true":
        raise Usage(
            f"table {path!r} takes appends only ({APPEND_ONLY}), and mode: upsert and dedupe merge",
            f"ALTER TABLE delta.{quoted(path)} SET TBLPROPERTIES ('{APPEND_ONLY}' = 'false')",
        )


def schema_for(rows: pa.Schema) -> Schema:
    """Of a new table. Raises Usage for a column that no Delta table can have."""
    from deltalake.schema import Schema

    for field in rows:
        if FORBIDDEN.search(field.name):
            raise Usage(
                f"column {field.name!r}: a Delta table's names have none of ' ,;{{}}()=', tab or line end", "rename it"
            )
    require_apart(rows.names)
    plain = []
    for field in rows:
        try:
            Schema.from_arrow(pa.schema([pa.field(field.name, field.type)]))
        except Exception as error:  # of a duration deltalake raises nothing narrower
            raise Usage(
                f"column {field.name!r} is {field.type}, which a Delta table cannot have", "cast it in the transform"
            ) from error
        plain.append(pa.field(field.name, field.type))
    made: Schema = Schema.from_arrow(pa.schema(plain))
    return made


def require_apart(names: Iterable[str]) -> None:
    """Spark takes names for the same that differ in case only."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise Usage(
                f"columns {seen[name.lower()]!r} and {name!r} differ in case only: to Spark they are one",
                "rename one of them",
            )
        seen[name.lower()] = name


def types_of(schema: Schema) -> dict[str, str]:
    """Names and types, as Delta writes them."""
    return {field["name"]: _type(field["type"]) for field in _fields(schema)}


def fitted(path: str, rows: pa.Schema, table: DeltaTable, evolves: bool) -> dict[str, str]:
    """The types of the rows' columns, which are those of the table. Raises Usage, by name, where they are not."""
    wanted, there = types_of(schema_for(rows)), {name.lower(): (name, one) for name, one in _there(table).items()}
    for name, kind in wanted.items():
        if name.lower() not in there:
            if not evolves:
                raise Usage(
                    f"table {path!r} has no column {name!r} ({kind})",
                    "leave it out in the transform, or let it be added: schema: evolve",
                )
            continue
        held = there[name.lower()][1]
        if held != kind:
            raise Usage(f"column {name!r} is {kind}, but {held} in table {path!r}", "cast it in the transform")
    for field in _fields(table.schema()):
        if not field["nullable"] and field["name"].lower() not in {name.lower() for name in wanted}:
            raise Usage(
                f"column {field['name']!r} of table {path!r} must not be null, and the rows have none of that name",
                "add it in the transform",
            )
    return wanted


def _there(table: DeltaTable) -> Mapping[str, str]:
    return types_of(table.schema())


def _fields(schema: Schema) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(schema.to_json())["fields"]
    return fields


def _type(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(_bare(kind), sort_keys=True)


def _bare(kind: Any) -> Any:
    """A nested type without what does not matter to who writes it: nullability and comments."""
    if isinstance(kind, list):
        return [_bare(one) for one in kind]
    if isinstance(kind, dict):
        left_out = ("metadata", "nullable", "containsNull", "valueContainsNull")
        return {name: _bare(one) for name, one in kind.items() if name not in left_out}
    return kind
