"""How long the log is kept: a pipeline's positions go with the commit that holds them, unless it commits again.

`userMetadata` is in no checkpoint of Delta's, so a run renews its positions in a quarter of that time.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from fencepost.errors import Usage
from fencepost.sinks.lake.merging import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG = "delta.logRetentionDuration"
TRANSACTIONS = "delta.setTransactionRetentionDuration"
USUAL = timedelta(days=30)
SHORTEST = timedelta(days=1)
_UNITS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}


def require_kept(path: str, table: DeltaTable) -> None:
    """Raises Usage for a table that forgets what the fence needs."""
    configuration = table.metadata().configuration
    if TRANSACTIONS in configuration:
        raise Usage(
            f"table {path!r} forgets transaction identifiers ({TRANSACTIONS}): a run that stood still for longer "
            "could write its rows again",
            f"ALTER TABLE delta.{quoted(path)} UNSET TBLPROPERTIES ('{TRANSACTIONS}')",
        )
    kept = duration(configuration.get(LOG))
    if kept is None or kept < SHORTEST:
        raise Usage(
            f"table {path!r} keeps its log for {configuration[LOG]}; the positions in it need a day at least",
            f"ALTER TABLE delta.{quoted(path)} SET TBLPROPERTIES ('{LOG}' = 'interval 30 days')",
        )


def duration(text: str | None) -> timedelta | None:
    """`interval 30 days`, as Delta has it; None where it is something else."""
    if text is None:
        return USUAL
    words = text.lower().removeprefix("interval").split()
    pairs = list(zip(words[::2], words[1::2], strict=False))
    known = pairs and len(words) % 2 == 0
    if not known or not all(re.fullmatch(r"\d+", n) and unit.rstrip("s") in _UNITS for n, unit in pairs):
        return None
    return sum((int(number) * _UNITS[unit.rstrip("s")] for number, unit in pairs), timedelta())


def log_kept(table: DeltaTable | None) -> timedelta:
    """How long a commit stays in the log, and with it the positions that it holds."""
    configured = table.metadata().configuration.get(LOG) if table else None
    return duration(configured) or SHORTEST
