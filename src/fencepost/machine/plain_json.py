"""What JSON knows, of anything that we report: for commands and for the page."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any


def dumped(value: Any) -> str:
    """Valid for every parser, plain ASCII, and nothing in it steers a terminal."""
    return json.dumps(plain(value), allow_nan=False).replace("\x7f", "\\u007f")


def plain(value: Any) -> Any:
    """What JSON knows; anything else as its text, as PostgreSQL would write it. A time has a T, as in ISO 8601."""
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str):
        return str.__str__(value).encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {plain(key if isinstance(key, str) else str(key)): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, bool | int | float):
        return value
    return plain(hexadecimal(value) if isinstance(value, bytes | memoryview) else str(value))


def iso(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="milliseconds") if moment else None


def hexadecimal(value: bytes | memoryview) -> str:
    return f"\\x{value.hex()}"
