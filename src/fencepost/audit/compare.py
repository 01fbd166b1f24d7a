"""What was sent against what is in the log and what landed: by id, with multiplicity. Pure.

Sets are not enough (a second copy hides in a set) and offsets are not counted (markers leave holes in them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fencepost.guarantee import ALLOWED, Anomaly, Guarantee, Ruling
from fencepost.model import Outcome

Id = Hashable


class Verdict(StrEnum):
    HOLDS = "holds"
    PARTLY = "holds-in-part"  # for what was checked, and not everything was
    BROKEN = "broken"
    INCONCLUSIVE = "inconclusive"
    UNJUDGED = "not-judged"  # nobody declared anything about it


@dataclass(frozen=True, slots=True)
class Finding:
    """One anomaly of one event."""

    code: Anomaly
    id: Id
    times: int  # how often it is there
    expected: int  # how often it should be


@dataclass(frozen=True)
class Comparison:
    """Exact counts, and a finding for each event that is not there as often as it should be."""

    expected: int  # how many rows must be there
    landed: int  # how many are, copies included
    findings: list[Finding] = field(default_factory=list)

    @property
    def lost(self) -> int:
        lost = (Anomaly.LOST_BEFORE_LOG, Anomaly.LOST_BEFORE_SINK)
        return sum(finding.expected - finding.times for finding in self.findings if finding.code in lost)

    @property
    def duplicated(self) -> int:
        """How many copies are too many, not how many events have some."""
        doubled = (Anomaly.DOUBLED_IN_LOG, Anomaly.DOUBLED_IN_SINK)
        return sum(finding.times - finding.expected for finding in self.findings if finding.code in doubled)

    @property
    def phantom(self) -> int:
        return sum(finding.times for finding in self.findings if finding.code is Anomaly.PHANTOM)

    def verdict(self, guarantee: Guarantee) -> Verdict:
        rulings = {ALLOWED[finding.code].under(guarantee) for finding in self.findings}
        if Ruling.FORBIDDEN in rulings:
            return Verdict.BROKEN
        return Verdict.INCONCLUSIVE if Ruling.UNDECIDED in rulings else Verdict.HOLDS


def compare_log(sent: Mapping[Any, Outcome], log: Iterable[Id]) -> Comparison:
    """The first hop: what the sender was told against the committed records of the log."""
    found = Counter(log)
    acked = sum(1 for outcome in sent.values() if outcome is Outcome.ACKED)
    return Comparison(acked, found.total(), [*_before_log(sent, found), *_phantoms(sent, found)])


def compare_sink(log: Iterable[Id], sink: Iterable[Id]) -> Comparison:
    """The second hop: the committed records of the log against the rows of a drained sink.

    An event that stands twice in the log is two events to a reader: the sink may hold it as often.
    """
    committed, landed = Counter(log), Counter(sink)
    findings = [*_before_sink(committed, landed), *_phantoms(committed, landed)]
    return Comparison(committed.total(), landed.total(), findings)


def _before_log(sent: Mapping[Any, Outcome], found: Counter[Id]) -> Iterator[Finding]:
    for id_, outcome in sent.items():
        times = found[id_]
        match outcome:
            case Outcome.ACKED if times == 0:
                yield Finding(Anomaly.LOST_BEFORE_LOG, id_, 0, 1)
            case Outcome.ACKED | Outcome.UNKNOWN if times > 1:
                yield Finding(Anomaly.DOUBLED_IN_LOG, id_, times, 1)
            case Outcome.ABORTED if times:
                yield Finding(Anomaly.ABORTED_READ, id_, times, 0)
            case Outcome.REFUSED if times:
                yield Finding(Anomaly.PHANTOM, id_, times, 0)


def _before_sink(committed: Counter[Id], landed: Counter[Id]) -> Iterator[Finding]:
    for id_, wanted in committed.items():
        times = landed[id_]
        if times < wanted:
            yield Finding(Anomaly.LOST_BEFORE_SINK, id_, times, wanted)
        if times > wanted:
            yield Finding(Anomaly.DOUBLED_IN_SINK, id_, times, wanted)


def _phantoms(known: Container[Any], found: Counter[Id]) -> Iterator[Finding]:
    return (Finding(Anomaly.PHANTOM, id_, times, 0) for id_, times in found.items() if id_ not in known)
