"""The ledger's statements, which are in ledger.sql, by name."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any, LiteralString

from psycopg import sql

from fencepost.sinks.postgres.connection import statement


@cache
def _statements() -> dict[str, LiteralString]:
    """ledger.sql, by name."""
    text = files("fencepost.sinks.postgres").joinpath("ledger.sql").read_text()
    _, *parts = re.split(r"^-- name: (\w+)$", text, flags=re.MULTILINE)
    bare: list[Any] = [re.sub(r"^--.*\n", "", part.lstrip(), flags=re.MULTILINE).strip() for part in parts[1::2]]
    return dict(zip(parts[::2], bare, strict=True))


def query(name: str, schema: str) -> sql.Composed:
    """In the schema where our own tables are."""
    return statement(_statements()[name], schema)
