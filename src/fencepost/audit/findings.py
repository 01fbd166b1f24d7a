"""What an audit found: anomalies with the events that they happened to, exact totals, and a verdict per hop. Pure."""

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
    """One anomaly, with as much as is known of its event; or of several that follow each other and are alike."""

    code: Anomaly
    id: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    times: int = 0  # how often it is there
    expected: int = 1  # how often it should be
    note: str = ""
    events: int = 1  # how many are alike
    last_id: str | None = None  # of several
    last_offset: int | None = None
    weight: int = 1  # what it is of the hop's total

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
        several = {"events": self.events, "last_id": self.last_id, "last_offset": self.last_offset}
        return {
            **known,
            **({"note": self.note} if self.note else {}),
            **(several if self.events > 1 else {}),
        }

    @property
    def where(self) -> str:
        """The place and the id, as far as they are known; of several the first and the last."""
        at = f"{self.topic}/{self.partition} {_several(self.offset, self.last_offset)}" if self.topic else ""
        return " ".join(filter(None, (at, _several(self.id, self.last_id) if self.id else "")))

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
    not_checked: list[str] = field(default_factory=list)  # what of the events could not be seen, or was left out
    undecided: str = ""  # why nothing can be said about the hop
    declared: bool = True  # does the declared guarantee cover it?
    said: Counter[Anomaly] = field(default_factory=Counter)  # what no declaration covers: told, and not judged
    remarks: list[Finding] = field(default_factory=list)  # the first of those

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
        self.not_checked += other.not_checked

    def only_say(self, *codes: Anomaly) -> None:
        """Nobody declared anything about these: they are told, and the verdict does not follow from them."""
        self.declared = False
        self.said = Counter({code: self.totals.pop(code) for code in codes if self.totals[code]})
        self.remarks = [finding for finding in self.findings if finding.code in codes]
        self.findings = [finding for finding in self.findings if finding.code not in codes]

    def verdict(self, guarantee: Guarantee) -> Verdict:
        rulings = {ALLOWED[code].under(guarantee) for code, count in self.totals.items() if count}
        if Ruling.FORBIDDEN in rulings:
            return Verdict.BROKEN
        if not self.declared:
            return Verdict.UNJUDGED
        if self.undecided or Ruling.UNDECIDED in rulings:
            return Verdict.INCONCLUSIVE
        return Verdict.PARTLY if self.not_checked else Verdict.HOLDS

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
            "anomalies": {code.value: count for code, count in sorted(self.totals.items()) if count},
            **({"said": {code.value: count for code, count in sorted(self.said.items())}} if self.said else {}),
            **({"not_checked": self.not_checked} if self.not_checked else {}),
            **({"undecided": self.undecided} if self.undecided else {}),
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
        """The worst of the judged hops'; open where the audit did not come to an end."""
        found = {hop.verdict(self.guarantee) for hop in self.hops} - {Verdict.UNJUDGED}
        if self.undecided or not found:
            found.add(Verdict.INCONCLUSIVE)
        return next(
            one for one in (Verdict.BROKEN, Verdict.INCONCLUSIVE, Verdict.PARTLY, Verdict.HOLDS) if one in found
        )

    @property
    def why_undecided(self) -> str:
        """Of the whole, or of the first hop of which nothing can be said."""
        return next(filter(None, (self.undecided, *(hop.undecided for hop in self.hops))), "")

    @property
    def not_checked(self) -> list[str]:
        """What no hop could see, or what was left out, each with its hop."""
        return [f"{hop.name}: {one}" for hop in self.hops for one in hop.not_checked]

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
            "hops": [{**hop.as_json(), "verdict": hop.verdict(self.guarantee).value} for hop in self.hops],
            "findings": [finding.as_json() for finding in self.findings[:most]],
            "remarks": [finding.as_json() for hop in self.hops for finding in hop.remarks][:most],
            "not_checked": self.not_checked,
            "partitions": self.partitions,
            "engine": self.engine,
        }
        return {**found, "undecided": self.undecided} if self.undecided else found


def _several(first: object, last: object) -> str:
    return f"{first}" if last is None or last == first else f"{first} to {last}"
