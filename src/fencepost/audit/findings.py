"""What an audit found: anomalies with the events that they happened to, exact totals, and the verdict. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fencepost.audit.compare import Verdict
from fencepost.guarantee import ALLOWED, Anomaly, Guarantee, Ruling

LOST = (Anomaly.LOST_BEFORE_LOG, Anomaly.LOST_BEFORE_SINK)
DOUBLED = (Anomaly.DOUBLED_IN_LOG, Anomaly.DOUBLED_IN_SINK)


@dataclass(frozen=True)
class Finding:
    """One anomaly, with as much as is known of its event."""

    code: Anomaly
    id: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    times: int = 0  # how often it is there
    expected: int = 1  # how often it should be
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        known = {
            "code": self.code.value,
            "id": self.id,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "times": self.times,
            "expected": self.expected,
        }
        return {**known, "note": self.note} if self.note else known

    def order(self) -> tuple[Any, ...]:
        return (self.topic or "", self.partition or 0, self.offset or 0, self.code.value, self.id or "")


@dataclass
class Hop:
    """One step of the way: what should have arrived, what did, and what is wrong."""

    name: str
    checked: str  # by what the events of both sides were matched
    expected: int = 0
    landed: int = 0
    totals: Counter[Anomaly] = field(default_factory=Counter)  # exact, in events; findings may be cut
    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, int] = field(default_factory=dict)  # what is neither expected nor wrong: filtered, waiting, ...

    def add(self, findings: Iterable[Finding], total: int | None = None) -> None:
        """Findings of which each is one event; or with a total of their own, where they are only the first ones."""
        added = list(findings)
        self.findings += added
        if total is None:
            self.totals.update(finding.code for finding in added)
        elif added:
            self.totals[added[0].code] += total

    def blame(self, other: Hop) -> None:
        """Take over what another look at the same hop has found."""
        self.findings += other.findings
        self.totals += other.totals

    @property
    def missing(self) -> int:
        """Events that should have arrived and did not."""
        return sum(self.totals[code] for code in LOST)

    def as_json(self) -> dict[str, Any]:
        return {
            "hop": self.name,
            "checked": self.checked,
            "expected": self.expected,
            "landed": self.landed,
            **self.facts,
            "anomalies": {code.value: count for code, count in sorted(self.totals.items())},
        }


@dataclass
class Audit:
    """All hops of one audit. Nothing here says "holds" unless something was compared."""

    guarantee: Guarantee
    engine: str
    hops: list[Hop]
    partitions: list[dict[str, Any]] = field(default_factory=list)
    undecided: str = ""  # why the audit could not come to an end

    @property
    def totals(self) -> Counter[Anomaly]:
        return sum((hop.totals for hop in self.hops), Counter())

    @property
    def findings(self) -> list[Finding]:
        """The forbidden ones first, then in the order of the log."""

        def order(finding: Finding) -> tuple[Any, ...]:
            allowed = ALLOWED[finding.code].under(self.guarantee) is not Ruling.FORBIDDEN
            return allowed, *finding.order()

        return sorted((finding for hop in self.hops for finding in hop.findings), key=order)

    @property
    def verdict(self) -> Verdict:
        rulings = {ALLOWED[code].under(self.guarantee) for code, count in self.totals.items() if count}
        if Ruling.FORBIDDEN in rulings:
            return Verdict.BROKEN
        if self.undecided or Ruling.UNDECIDED in rulings or not self.hops:
            return Verdict.INCONCLUSIVE
        return Verdict.HOLDS

    def total(self, *codes: Anomaly) -> int:
        totals = self.totals
        return sum(totals[code] for code in codes)

    def as_json(self, most: int) -> dict[str, Any]:
        last = self.hops[-1] if self.hops else Hop("", "")
        found = {
            "verdict": self.verdict.value,
            "guarantee": self.guarantee.value,
            "expected": last.expected,
            "landed": last.landed,
            "lost": self.total(*LOST),
            "duplicated": self.total(*DOUBLED),
            "phantom": self.total(Anomaly.PHANTOM),
            "anomalies": {code.value: count for code, count in sorted(self.totals.items()) if count},
            "hops": [hop.as_json() for hop in self.hops],
            "findings": [finding.as_json() for finding in self.findings[:most]],
            "partitions": self.partitions,
            "engine": self.engine,
        }
        return {**found, "undecided": self.undecided} if self.undecided else found
