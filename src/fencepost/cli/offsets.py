"""How offsets, times and numbers are written on the command line."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from fencepost.errors import Usage

if TYPE_CHECKING:
    from fencepost.kafka.offsets import Start

_LARGEST_PARTITION, _LARGEST_OFFSET = 2**31 - 1, 2**63 - 1


def finite(value: float | None) -> float | None:
    """For an option's callback: `nan` and `inf` are numbers too, and no time ever comes."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number of seconds or events")
    return value


def parse_start(text: str, option: str) -> Start:
    """earliest, latest, a time with a zone, or offsets by partition such as 0:120,1:7."""
    if text in ("earliest", "latest"):
        return text
    try:
        if "T" in text or "-" in text:
            time = datetime.fromisoformat(text)
            if time.tzinfo is None:
                raise Usage(f"{option} {text}", "a time needs a zone, as in 2026-01-31T12:00:00Z")
            return time
        return _offsets(text)
    except ValueError:
        remedy = "give earliest, latest, a time with a zone, or offsets such as 0:120,1:7"
        raise Usage(f"{option} {text}", remedy) from None


def _offsets(text: str) -> dict[int, int]:
    pairs = [pair.split(":") for pair in text.split(",")]
    found = {int(partition): int(offset) for partition, offset in pairs}
    small = all(0 <= part <= _LARGEST_PARTITION and 0 <= at <= _LARGEST_OFFSET for part, at in found.items())
    if len(found) < len(pairs) or not small:
        raise ValueError
    return found
