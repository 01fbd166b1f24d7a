"""How long the log is kept: a pipeline's positions go with the commit that holds them, unless it commits again.

`userMetadata` is in no checkpoint of Delta's, so a run that is idle writes its positions anew in time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from fencepost.errors import Usage
from fencepost.model import Tenure

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from fencepost.sinks.delta.store import DeltaStore

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
            f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('{TRANSACTIONS}')",
        )
    kept = duration(configuration.get(LOG))
    if kept is None or kept < SHORTEST:
        raise Usage(
            f"table {path!r} keeps its log for {configuration[LOG]}; the positions in it need a day at least",
            f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{LOG}' = 'interval 30 days')",
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


def refresh(store: DeltaStore, tenure: Tenure, now: datetime | None = None) -> bool:
    """Write the positions anew where a quarter of the time is over. Says whether it did. Raises Fenced."""
    held = store.held(tenure.pipeline)
    if held.noted is None:
        return False
    table = store.log.table()
    kept = duration(table.metadata().configuration.get(LOG)) if table else None
    if (now or datetime.now(UTC)) - held.noted.at < (kept or SHORTEST) / 4:
        return False
    store.repeat(tenure)
    return True
