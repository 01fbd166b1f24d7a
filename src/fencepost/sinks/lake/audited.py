"""Rows of a lake table as the audit compares them."""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa

from fencepost.errors import Usage
from fencepost.rows.shape import PROVENANCE
from fencepost.sinks.auditing import Columns

REASON = "_dead"  # the column of dead letters that says why
_PLACE = {"topic": ("_topic", pa.string()), "part": ("_partition", pa.int32()), "pos": ("_offset", pa.int64())}


def wanted(columns: Columns, placed: bool) -> tuple[str, ...]:
    """What must be read. `placed`: rows are compared by where they came from."""
    names = [*(PROVENANCE.names if placed else ()), *filter(None, (columns.id, columns.payload))]
    return tuple(dict.fromkeys(names))


def for_audit(rows: pa.Table, columns: Columns, placed: bool) -> pa.Table:
    """topic, part, pos, id, n, payload."""
    size = rows.num_rows
    made = {
        name: rows.column(column).cast(kind) if placed else pa.nulls(size, kind)
        for name, (column, kind) in _PLACE.items()
    }
    made["id"] = rows.column(columns.id).cast(pa.string()) if columns.id else pa.nulls(size, pa.string())
    made["n"] = rows.column("_n").cast(pa.int32()) if placed else pa.repeat(pa.scalar(0, pa.int32()), size)
    made["payload"] = _sums(rows.column(columns.payload)) if columns.payload else pa.nulls(size, pa.string())
    return pa.table(made)


def dead_for_audit(letters: pa.Table | None) -> pa.Table:
    """topic, part, pos, id, of the places of dead letters; None: there is no table of them."""
    places = [("topic", pa.string()), ("part", pa.int32()), ("pos", pa.int64())]
    if letters is None:
        letters = pa.schema(places).empty_table()
    rows = letters.select(letters.column_names[:3]).rename_columns([name for name, _ in places]).cast(pa.schema(places))
    return rows.append_column("id", pa.nulls(rows.num_rows, pa.string()))


def why_dead(letters: pa.Table) -> str | None:
    """What the letters of one place say; None: there is none."""
    found = letters.column(REASON).to_pylist()
    return str(found[0] or "") if found else None


def no_provenance(table: str) -> Usage:
    return Usage(
        f"the rows of {table!r} have no provenance",
        "keep the column _from in the transform, and leave provenance on",
    )


def _sums(values: pa.ChunkedArray) -> pa.Array:
    """As PostgreSQL's md5 and Spark's give it."""
    found = [None if one is None else hashlib.md5(_bytes(one), usedforsecurity=False) for one in values.to_pylist()]
    return pa.array([None if one is None else one.hexdigest() for one in found], pa.string())


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
