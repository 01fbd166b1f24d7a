"""The journal against the log: what the sender was told, and what is there; and the log against itself.

Reads the relations `journal` (id, outcome, transaction), `log` and, where ids are missing from it, `raw`.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.audit.engines.engine import Engine
from fencepost.audit.findings import Hop
from fencepost.audit.hop_findings import HopFindings, is_sequenced
from fencepost.guarantee import Anomaly
from fencepost.machine.counting import count as counted
from fencepost.model import Outcome

BY_HEADERS = "ids, checksums and sequences in the events' headers"
_SEQUENCED = """
SELECT topic, part, pos, id, key, split_part(id, ':', 1) AS producer,
       CAST(split_part(id, ':', 2) AS BIGINT) AS number,
       {copy} AS copy
FROM {relation} WHERE {is_sequenced}
"""
_COPY = "row_number() OVER (PARTITION BY id ORDER BY topic, part, pos)"  # sorts by id: only where there are copies

_LATER = """
SELECT * FROM (
    SELECT topic, part, pos, id, number, max(number) OVER (
        PARTITION BY producer, topic, part, key ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS before FROM sequenced WHERE copy = 1
) AS each_one WHERE number < before
"""


def compare_log(
    engine: Engine, most: int, read_raw: Callable[[], None], missing: Anomaly = Anomaly.LOST_BEFORE_LOG
) -> Hop:
    """The first hop. An event that was sent and whose outcome is unknown may be there once, or not at all.

    `missing`: what an acknowledged event is that is nowhere; undecided where the log may have forgotten it.
    """
    return _FirstHop(engine, most, read_raw, missing).run()


def check_log(engine: Engine, most: int, relation: str = "log", reordered: Anomaly = Anomaly.REORDERED_IN_LOG) -> Hop:
    """The log by itself: ids that stand there twice, values that changed, sequences that go back within a key."""
    hop = Hop("sender to log", BY_HEADERS)
    findings = HopFindings(engine, hop, most)
    (count,) = engine.rows(
        "SELECT count(*) AS rows, count(id) AS ids, count(intact) AS sums, count(DISTINCT id) AS different, "
        f"coalesce(sum(CASE WHEN intact = FALSE THEN 1 ELSE 0 END), 0) AS changed FROM {relation}"
    )
    hop.expected = hop.landed = int(count["rows"])
    hop.facts = {"with_id": int(count["ids"]), "with_checksum": int(count["sums"])}
    hop.facts["copies"] = int(count["ids"]) - int(count["different"])
    if count["changed"]:
        findings.add(Anomaly.CORRUPTED, relation, "intact = FALSE", "the value does not match its checksum", times="1")
    if count["ids"]:
        copy = _COPY if hop.facts["copies"] else "1"
        engine.view("sequenced", _SEQUENCED.format(relation=relation, is_sequenced=is_sequenced(engine), copy=copy))
        engine.keep("later", _LATER)
        findings.add(reordered, "later", "TRUE", "an event that was sent later stands before it", times="1")
    return hop


def doubled_in_log(engine: Engine, hop: Hop, most: int) -> None:
    """Ids that stand in the log more than once, where no journal says what was sent."""
    if not hop.facts["copies"]:
        return
    engine.keep(
        "copies",
        "SELECT min(topic) AS topic, min(part) AS part, min(pos) AS pos, id, count(*) AS times FROM log "
        "WHERE id IS NOT NULL GROUP BY id HAVING count(*) > 1",
    )
    HopFindings(engine, hop, most).add(Anomaly.DOUBLED_IN_LOG, "copies", "TRUE", events="times - 1", times="times")
    (count,) = engine.rows("SELECT count(*) AS ids, coalesce(max(times), 0) AS times FROM copies")
    hop.facts |= {"repeated_ids": int(count["ids"]), "most_copies": int(count["times"])}


class _FirstHop:
    def __init__(self, engine: Engine, most: int, read_raw: Callable[[], None], missing: Anomaly) -> None:
        self._engine = engine
        self._read_raw = read_raw
        self._nowhere = missing
        self._hop = Hop("sender to log", f"the journal's ids, and {BY_HEADERS}")
        self._findings = HopFindings(engine, self._hop, most)

    def run(self) -> Hop:
        self._engine.view(
            "logged",
            "SELECT id, min(topic) AS topic, min(part) AS part, min(pos) AS pos, count(*) AS times FROM log "
            "WHERE id IS NOT NULL GROUP BY id",
        )
        self._engine.keep(
            "told",
            "SELECT coalesce(j.id, l.id) AS id, j.outcome, j.transaction, coalesce(j.least, 0) AS least, "
            "coalesce(j.most, 0) AS most, l.topic, l.part, l.pos, coalesce(l.times, 0) AS times "
            "FROM journal j FULL OUTER JOIN logged l ON j.id = l.id",
        )
        self._count()
        self._torn()
        self._lost()
        told = "outcome IN ('acked', 'unknown') AND times > most"
        self._findings.add(
            Anomaly.DOUBLED_IN_LOG, "told", told, events="times - most", times="times", expected="greatest(least, 1)"
        )
        all_of_them = {"events": "times", "times": "times", "expected": "0"}
        self._findings.add(Anomaly.ABORTED_READ, "told", "outcome = 'aborted' AND times > 0", **all_of_them)
        never = "times > 0 AND (outcome IS NULL OR outcome = 'refused')"
        self._findings.add(Anomaly.PHANTOM, "told", never, "no journal says that it was sent", **all_of_them)
        self._nameless()
        return self._hop

    def _nameless(self) -> None:
        """Records without an id may be anybody's: a journal does not name them."""
        (count,) = self._engine.rows("SELECT count(*) - count(id) AS records FROM log")
        if count["records"]:
            self._hop.not_checked.append(
                f"{counted(count['records'], 'record')} of the log without an id: no journal names them"
            )

    def _count(self) -> None:
        outcomes = {
            row["outcome"]: row
            for row in self._engine.rows(
                "SELECT outcome, count(*) AS events, sum(least) AS least, sum(times) AS times FROM told "
                "GROUP BY outcome"
            )
        }
        events = {word: int(outcomes[word]["events"]) if word in outcomes else 0 for word in list(Outcome)}
        self._hop.landed = sum(int(row["times"] or 0) for row in outcomes.values())
        self._hop.expected = sum(int(row["least"] or 0) for row in outcomes.values())
        self._hop.facts = {word.value: events[word] for word in Outcome}

    def _torn(self) -> None:
        """A transaction of which a part is there: the whole is named once, and its missing events are not lost too."""
        self._engine.keep(
            "torn",
            "SELECT transaction AS id, NULL AS topic, NULL AS part, NULL AS pos, count(*) AS events, "
            "sum(CASE WHEN times > 0 THEN 1 ELSE 0 END) AS times FROM told WHERE transaction IS NOT NULL "
            "GROUP BY transaction HAVING sum(CASE WHEN times > 0 THEN 1 ELSE 0 END) BETWEEN 1 AND count(*) - 1",
        )
        counts = {"times": "times", "expected": "events"}
        self._findings.add(Anomaly.TORN_TRANSACTION, "torn", "TRUE", "a part of the transaction is there", **counts)

    def _lost(self) -> None:
        gone = "times < least AND (transaction IS NULL OR transaction NOT IN (SELECT id FROM torn))"
        if not self._engine.rows(f"SELECT 1 AS one FROM told WHERE {gone} LIMIT 1"):
            return
        self._read_raw()
        self._engine.keep(
            "gone",
            "SELECT t.id, r.topic, r.part, r.pos, t.times, t.least FROM (SELECT * FROM told WHERE "
            f"{gone}) t LEFT JOIN (SELECT id, min(topic) AS topic, min(part) AS part, min(pos) AS pos FROM raw "
            "GROUP BY id) r ON t.id = r.id",
        )
        nowhere, aborted = "acknowledged, and not in the log", "acknowledged, and in the log only as not committed"
        counts = {"events": "least - times", "times": "times", "expected": "least"}
        some = "acknowledged more often than it is in the log"
        self._findings.add(self._nowhere, "gone", "pos IS NULL", nowhere, **counts)
        self._findings.add(Anomaly.LOST_BEFORE_LOG, "gone", "pos IS NOT NULL AND times = 0", aborted, **counts)
        self._findings.add(self._nowhere, "gone", "pos IS NOT NULL AND times > 0", some, **counts)
