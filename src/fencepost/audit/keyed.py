"""Upsert and dedupe: which event of each key must have the row, said in SQL over what the transform makes.

Reads the relations `outputs` (topic, part, pos, n, tombstone, ord, and the key's columns k0, k1, ...), `ranges`,
`uncounted`, and `found`, the sink's rows; `log` for the events' ids. Makes `expected`, and `sink`, in which all rows of
an event are alike: of several that came of it each may have been replaced by another event's.
"""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.audit.engines.engine import Engine
from fencepost.model import Merge, Mode

BY_KEY = "provenance: the row of each key, against what the transform makes of the log"


@dataclass(frozen=True)
class Keys:
    """The columns of a key, as the relations name them."""

    count: int

    def of(self, side: str = "") -> str:
        return ", ".join(f"{side}k{number}" for number in range(self.count))

    def same(self, left: str, right: str) -> str:
        return " AND ".join(f"{left}.k{number} = {right}.k{number}" for number in range(self.count))


def make_expected(engine: Engine, merge: Merge, one_topic_counts: bool = True) -> int:
    """`expected`: one event for each key that must have a row. Returns how many keys are left out.

    Those have events outside of what is compared: the row may be of one of them. `one_topic_counts`: of equals in
    different topics the higher name wins; otherwise any of them may.
    """
    keys = Keys(len(merge.key))
    engine.view("sink", "SELECT topic, part, pos, id, 0 AS n, n AS output, payload, zone FROM found")
    engine.keep("open_keys", _OPEN.format(keys=keys.of("o.")))
    (count,) = engine.rows("SELECT count(*) AS keys FROM open_keys")
    engine.view("judged", _JUDGED.format(same=keys.same("o", "u")) if count["keys"] else "SELECT * FROM outputs")
    if count["keys"]:
        _leave_open(engine, keys, "open_keys")
    winners = _by_value(keys, one_topic_counts) if merge.order_by else _by_place(keys, merge.mode)
    engine.keep("winners", _ONE_OF_A_KEY.format(winners=winners, keys=keys.of("c."), names=keys.of()))
    engine.keep("lost_keys", _LOST.format(keys=keys.of("w.")))
    if engine.rows("SELECT 1 AS one FROM lost_keys LIMIT 1"):
        _leave_open(engine, keys, "lost_keys")
    engine.view("expected", _EXPECTED.format(alive="NOT w.tombstone" if merge.deletes else "TRUE"))
    return int(count["keys"])


def _leave_open(engine: Engine, keys: Keys, relation: str) -> None:
    """Rows of these keys are not judged."""
    settled = f"settled_but_for_{relation}"
    engine.keep(settled, _SETTLED.format(same=keys.same("o", "u"), keys=relation))
    engine.view("sink", f"SELECT * FROM {settled}")


# A partition's records before those that it began with were never carried; the others that are outside were.
_OPEN = """
SELECT DISTINCT {keys} FROM outputs o LEFT JOIN ranges r ON r.topic = o.topic AND r.part = o.part
WHERE r.topic IS NULL OR o.pos < r.first OR o.pos >= r.until
"""
_JUDGED = "SELECT o.* FROM outputs o LEFT JOIN open_keys u ON {same} WHERE u.k0 IS NULL"
_SETTLED = """
SELECT s.topic, s.part, s.pos, s.id, s.n, s.output, s.payload,
       CASE WHEN s.zone = 'in' AND p.pos IS NOT NULL THEN 'unsettled' ELSE s.zone END AS zone
FROM sink s LEFT JOIN (
    SELECT DISTINCT o.topic, o.part, o.pos FROM outputs o JOIN {keys} u ON {same}
) p ON s.topic = p.topic AND s.part = p.part AND s.pos = p.pos
"""


def _by_value(keys: Keys, one_topic_counts: bool) -> str:
    """The highest value, nulls last, then the highest place: as the sink's own statement has it."""
    apart = "" if one_topic_counts else ", topic"
    best = f"max(ord) OVER (PARTITION BY {keys.of()}) AS best"
    return (
        f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {keys.of()}{apart} "
        "ORDER BY ord DESC NULLS LAST, topic DESC, part DESC, pos DESC, n DESC) AS place, "
        f"{best} FROM judged) AS ordered WHERE place = 1 AND (ord = best OR best IS NULL)"
    )


def _by_place(keys: Keys, mode: Mode) -> str:
    """Of each partition the last event, or the first. Which of them was committed last only the sink knows."""
    way = "DESC" if mode is Mode.UPSERT else "ASC"
    return (
        f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY topic, part, {keys.of()} "
        f"ORDER BY pos {way}, n {way}) AS place FROM judged) AS ordered WHERE place = 1"
    )


_ONE_OF_A_KEY = """
SELECT topic, part, pos, tombstone, has_row, {names} FROM (
    SELECT c.*, s.pos IS NOT NULL AS has_row, row_number() OVER (
        PARTITION BY {keys} ORDER BY CASE WHEN s.pos IS NULL THEN 1 ELSE 0 END, c.tombstone DESC, c.topic, c.part
    ) AS number
    FROM ({winners}) c LEFT JOIN (SELECT DISTINCT topic, part, pos, output FROM sink WHERE zone = 'in') s
    ON c.topic = s.topic AND c.part = s.part AND c.pos = s.pos AND c.n = s.output
) AS candidates WHERE number = 1
"""
# The event that should have the row went with a batch whose position moved first: the row is an older event's still.
_LOST = """
SELECT DISTINCT {keys} FROM winners w
JOIN uncounted c ON w.topic = c.topic AND w.part = c.part AND w.pos >= c.first AND w.pos < c.until
WHERE NOT w.has_row
"""
_EXPECTED = """
SELECT w.topic, w.part, w.pos, l.id, l.key, l.intact, l.payload FROM winners w
JOIN log l ON l.topic = w.topic AND l.part = w.part AND l.pos = w.pos WHERE {alive}
"""
