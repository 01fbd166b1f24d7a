"""The same transforms as queries, for Spark."""

from __future__ import annotations

from typing import Protocol


class Queried(Protocol):
    """What of a case a query is made of."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def keyed(self) -> bool: ...
    @property
    def transform(self) -> str | None: ...


def query(case: Queried) -> str:
    names = [*case.columns, "_from"]
    match case.transform:
        case "reordered" | "wobbling":
            names.reverse()
        case "raising":
            names[names.index("k")] = "IF(k = 13, raise_error('thirteen'), k) AS k"
    more = ", CAST(CAST(key AS STRING) AS BIGINT) AS k" if case.keyed else ""
    twice = " LATERAL VIEW explode(array(1, 2)) twice AS time" if case.transform == "doubling" else ""
    where = " WHERE k IS NULL OR k % 3 <> 0" if case.transform == "filtering" else ""
    return f"SELECT {', '.join(names)} FROM (SELECT *{more} FROM events) AS e{twice}{where}"
