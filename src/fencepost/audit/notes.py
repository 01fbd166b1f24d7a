"""From a query's answer to findings: all of it in the totals, the first ones by name."""

from __future__ import annotations

from fencepost.audit.engine import Engine, Row
from fencepost.audit.findings import Finding, Hop
from fencepost.guarantee import Anomaly


class Notes:
    """Adds what conditions select to a hop. The relations have the columns id, topic, part, pos."""

    def __init__(self, engine: Engine, hop: Hop, most: int) -> None:
        self._engine = engine
        self._hop = hop
        self._most = max(most, 1)

    def add(self, code: Anomaly, relation: str, where: str, note: str = "", **counts: str) -> None:
        """`counts` are SQL: events (how many a row stands for), times and expected (of each), n (which output)."""
        events, times = counts.get("events", "1"), counts.get("times", "0")
        expected, output = counts.get("expected", "1"), counts.get("n", "0")
        (total,) = self._engine.rows(f"SELECT coalesce(sum({events}), 0) AS events FROM {relation} WHERE {where}")
        if total["events"]:
            first = self._engine.rows(
                f"SELECT id, topic, part, pos, {times} AS times, {expected} AS expected, {output} AS n "
                f"FROM {relation} WHERE {where} ORDER BY topic, part, pos, n, id LIMIT {self._most}"
            )
            self._hop.add([_finding(code, row, note) for row in first], int(total["events"]))


def _finding(code: Anomaly, row: Row, note: str) -> Finding:
    output = f"output {row['n']} of the event" if row["n"] else ""
    return Finding(
        code,
        row["id"],
        row["topic"],
        row["part"],
        row["pos"],
        int(row["times"]),
        int(row["expected"]),
        "; ".join(filter(None, (note, output))),
    )
