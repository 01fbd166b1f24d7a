"""Records that cannot be delivered, as rows: the whole record, and why."""

from __future__ import annotations

import pyarrow as pa

from fencepost.rows.json_column import json_field

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        json_field("headers"),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("_dead", pa.string()),  # why; the column's name marks a batch as dead letters
    ]
)
RECORD_SCHEMA = pa.schema(  # the same for a sink that takes records: headers as they were
    [pa.field("headers", HEADERS) if one.name == "headers" else one for one in SCHEMA]
)


def are_dead(rows: pa.RecordBatch) -> bool:
    return "_dead" in rows.schema.names
