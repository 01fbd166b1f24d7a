"""Columns of text that hold JSON: marked in the field's metadata, because Arrow has no type for it."""

from __future__ import annotations

import pyarrow as pa

_MARK = b"json"
TOMBSTONE_NAME = "_tombstone"  # a column of no sink: whether the event that a row came of has no value


def json_field(name: str) -> pa.Field:
    """A string column whose text is JSON."""
    return pa.field(name, pa.string(), metadata={"fencepost": _MARK})


def holds_json(field: pa.Field) -> bool:
    return bool(field.metadata) and field.metadata.get(b"fencepost") == _MARK
