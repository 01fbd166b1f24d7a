"""The table beside the target where records go that cannot be delivered, in the same transaction as their span."""

from __future__ import annotations

import hashlib

from fencepost.sinks.postgres.columns import Column

COLUMNS = (
    Column("topic", "text"),
    Column("partition", "integer"),
    Column("offset", "bigint"),
    Column("key", "bytea"),
    Column("value", "bytea"),
    Column("headers", "jsonb"),
    Column("timestamp", "timestamp with time zone"),
    Column("_dead", "text"),
)


LONGEST = 63  # bytes of a name: PostgreSQL cuts the rest off, and would take `x..._dead` for `x...`


def table_for(table: str) -> str:
    """`orders_dead`; for a name that would be too long its beginning, and a hash of all of it."""
    schema, dot, name = table.rpartition(".")
    if len(f"{name}_dead".encode()) > LONGEST:
        beginning = name.encode()[:45].decode(errors="ignore")
        name = f"{beginning}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return f"{schema}{dot}{name}_dead"
