"""From a query's answer to findings: all of it in the totals, the first ranges of alike events by name."""

from __future__ import annotations

from fencepost.audit.engines.engine import Engine, Row
from fencepost.audit.findings import Finding, Hop
from fencepost.guarantee import Anomaly


class HopFindings:
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
            number = f"CASE WHEN {is_sequenced(self._engine)} THEN try_cast(split_part(id, ':', 2) AS BIGINT) END"
            first = self._engine.rows(
                _RANGES.format(
                    columns=f"{times} AS times, {expected} AS expected, {output} AS n, {events} AS weight",
                    number=number,
                    relation=relation,
                    where=where,
                    most=self._most,
                )
            )
            self._hop.add([_finding(code, row, note) for row in first], int(total["events"]))


def is_sequenced(engine: Engine) -> str:
    """Does the id end in the sequence number of its producer?"""
    function = "regexp_matches" if engine.name == "python" else "regexp_like"
    return f"id IS NOT NULL AND {function}(id, '^[^:]+:[0-9]{{1,18}}$')"


# Events that follow each other in the log, or where they are not in it in their producer's sequence, and are alike.
_RANGES = """
SELECT topic, part, min(pos) AS pos, max(pos) AS last_pos, coalesce(min_by(id, place), min(id)) AS id,
       coalesce(max_by(id, place), min(id)) AS last_id, count(*) AS events, sum(weight) AS weight, times, expected, n
FROM (
    SELECT *, place - row_number() OVER (PARTITION BY topic, part, series, times, expected, n ORDER BY place) AS island
    FROM (
        SELECT id, topic, part, pos, CASE WHEN pos IS NULL THEN split_part(id, ':', 1) END AS series,
               coalesce(pos, {number}) AS place, {columns} FROM {relation} WHERE {where}
    ) AS one
) AS each_one
GROUP BY topic, part, series, times, expected, n, island, CASE WHEN place IS NULL THEN id END
ORDER BY topic NULLS LAST, part NULLS LAST, pos NULLS LAST, series NULLS LAST, min(place) NULLS LAST, n, id LIMIT {most}
"""


def _finding(code: Anomaly, row: Row, note: str) -> Finding:
    output = f"output {row['n']} of the event" if row["n"] else ""
    several = int(row["events"]) > 1
    return Finding(
        code,
        row["id"],
        row["topic"],
        row["part"],
        row["pos"],
        int(row["times"]),
        int(row["expected"]),
        "; ".join(filter(None, (note, output))),
        int(row["events"]),
        row["last_id"] if several else None,
        row["last_pos"] if several else None,
        int(row["weight"]),
    )
