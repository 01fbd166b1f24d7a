"""Values that PostgreSQL has and Python has not (infinity, 24:00, years BC, long numbers): read as their text."""

from __future__ import annotations

import json
from typing import Any

from psycopg import DataError
from psycopg.adapt import Loader
from psycopg.types import datetime as times

from fencepost.sinks.postgres.connection import Connection

_DEEPEST = 100  # brackets, beyond which JSON stays a text
_TIMES: dict[str, type[Loader]] = {
    "date": times.DateLoader,
    "time": times.TimeLoader,
    "timetz": times.TimetzLoader,
    "timestamp": times.TimestampLoader,
    "timestamptz": times.TimestamptzLoader,
    "interval": times.IntervalLoader,
}


def read_leniently(connection: Connection) -> None:
    """From now on this connection shows every value, for people to look at. Never for what is compared or copied."""
    for name, usual in _TIMES.items():
        connection.adapters.register_loader(name, _or_text(usual))
    for name in ("json", "jsonb"):
        connection.adapters.register_loader(name, _Json)


def _or_text(usual: type[Loader]) -> type[Loader]:
    class OrText(usual):  # type: ignore[misc, valid-type]
        def load(self, data: Any) -> Any:
            try:
                return super().load(data)
            except (DataError, OverflowError):
                return bytes(data).decode()

    return OrText


class _Json(Loader):
    def load(self, data: Any) -> Any:
        text = bytes(data).decode()
        if text.count("[") + text.count("{") > _DEEPEST:
            return text
        try:
            return json.loads(text)
        except ValueError:
            return text
