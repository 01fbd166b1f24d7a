"""Where in a topic: how offsets and times are written on the command line."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from fencepost.errors import Usage

if TYPE_CHECKING:
    from fencepost.cluster.positions import Start


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
        return {int(partition): int(offset) for partition, offset in (pair.split(":") for pair in text.split(","))}
    except ValueError:
        remedy = "give earliest, latest, a time with a zone, or offsets such as 0:120,1:7"
        raise Usage(f"{option} {text}", remedy) from None
