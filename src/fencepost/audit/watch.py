"""An audit that goes on. Where each event has a row of its own that knows its place, only what is new is compared.

Everywhere else (upsert, dedupe, ids, rows that are only counted) a new event changes what must be there for an older
one, and each round is a whole audit.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fencepost.audit.audit import audit_scope
from fencepost.audit.compare import Verdict
from fencepost.audit.findings import Audit, Finding, Hop
from fencepost.audit.kept import MOST_FINDINGS
from fencepost.audit.request import AuditRequest, what_landed
from fencepost.audit.scope import Scope, find_scope
from fencepost.audit.spans import breaks
from fencepost.errors import FencepostError, Usage
from fencepost.guarantee import Anomaly
from fencepost.kafka.errors import AuthenticationFailed
from fencepost.machine.counting import count
from fencepost.model import Mode, Span, TopicPartition
from fencepost.sinks.auditing import LandedRows


@dataclass(frozen=True)
class Change:
    """What is known after a round that differs from what was known before."""

    at: datetime
    verdict: Verdict
    compared: int  # rows, since the beginning
    waiting: int
    totals: Mapping[Anomaly, int]
    undecided: str = ""
    not_checked: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "at": self.at.isoformat(timespec="seconds"),
            "verdict": self.verdict.value,
            "landed": self.compared,
            "waiting": self.waiting,
            "anomalies": {code.value: count for code, count in sorted(self.totals.items()) if count},
            "undecided": self.undecided or None,
            "not_checked": list(self.not_checked),
        }

    def line(self) -> str:
        found = (
            ", ".join(f"{code} {count:,}" for code, count in sorted(self.totals.items()) if count) or "nothing found"
        )
        aside = f"; undecided: {self.undecided}" if self.undecided else ""
        aside += "".join(f"; not checked: {one}" for one in self.not_checked)
        return (
            f"{self.at:%H:%M:%S}  {self.verdict}: {count(self.compared, 'row')} compared, {found}, "
            f"{count(self.waiting, 'offset')} to go{aside}"
        )

    def says_the_same_as(self, other: Change | None) -> bool:
        return other is not None and replace(self, at=other.at) == other


def watch(request: AuditRequest, every: float, keep: Callable[[Audit], None]) -> Iterator[Change]:
    """Rounds for as long as somebody asks for the next; only those that change something are told, each is kept."""
    rounds = Rounds(request)
    told: Change | None = None
    while True:
        before = rounds.so_far
        change = rounds.next()
        if rounds.so_far is not None and rounds.so_far is not before:
            keep(rounds.so_far)
        if not change.says_the_same_as(told):
            told = change
            yield change
        time.sleep(every)


class Rounds:
    """Remembers up to where was compared, and what was found, what was left open and what was not checked."""

    def __init__(self, request: AuditRequest) -> None:
        self._request = request
        self._reached: dict[TopicPartition, int] = {}
        self._known = Hop("", "")
        self._open: list[str] = []  # why hops of earlier rounds are undecided
        self._overlaps: set[Break] = set()  # of the commits, in the last round
        self._told: set[Break] = set()  # among what is known
        self.so_far: Audit | None = None  # everything that was compared, as one audit; another one after each round

    def next(self) -> Change:
        try:
            adds_up = _adds_up(self._request)
            scope = find_scope(self._request)
            overlaps = {_break(one) for one in breaks(scope.spans, {}) if one.code is Anomaly.SPAN_OVERLAP}
            goes_on = adds_up and not self._went_back(scope, overlaps)
            found = audit_scope(self._request, self._new(scope) if goes_on else scope)
        except (Usage, AuthenticationFailed):
            raise
        except FencepostError as error:
            return self._change(0, str(error))
        if not goes_on:
            self._known, self._open, self._told = Hop("", ""), [], set()
        self._overlaps = overlaps
        self._learn(found)
        self._reached = {at: span.end for at, span in scope.ranges.items()}
        self.so_far = replace(found, hops=[self._known], partitions=scope.partitions()) if adds_up else found
        return self._change(sum(scope.waiting(at) for at in scope.ranges), found.undecided)

    def _went_back(self, scope: Scope, overlaps: set[Break]) -> bool:
        """Is something read again that was compared? Its rows come beside those that were counted: all begins anew."""
        back = any(span.end < self._reached.get(at, 0) for at, span in scope.ranges.items())
        return back or (bool(self._reached) and not overlaps <= self._overlaps)

    def _new(self, scope: Scope) -> Scope:
        """What lies beyond the last round, and the last span before it, to which the next must connect."""
        ranges = {
            at: Span(max(span.start, min(self._reached.get(at, span.start), span.end)), span.end)
            for at, span in scope.ranges.items()
        }
        last = {
            one.partition: n for n, one in enumerate(scope.spans) if one.span.end == self._reached.get(one.partition)
        }
        spans = [
            one
            for n, one in enumerate(scope.spans)
            if n >= last.get(one.partition, 0) and one.span.end >= self._reached.get(one.partition, 0)
        ]
        return replace(scope, ranges=ranges, spans=spans)

    def _learn(self, found: Audit) -> None:
        """What a round leaves open stays open: it is not compared again."""
        known = self._known
        again = [one for one in found.findings if one.code in _BREAKS and _break(one) in self._told]
        self._told |= {_break(one) for one in found.findings}
        known.totals += found.totals - Counter(one.code for one in again)
        fresh = [one for one in found.findings if one not in again]
        known.findings = [*known.findings, *fresh][:MOST_FINDINGS]
        if found.hops:
            last = found.hops[-1]
            known.name, known.checked = last.name, last.checked
            known.landed, known.expected = known.landed + last.landed, known.expected + last.expected
        reasons = [f"{hop.name}: {hop.undecided}" for hop in found.hops if hop.undecided]
        self._open = list(dict.fromkeys([*self._open, *reasons]))
        known.undecided = "; ".join(self._open)
        known.not_checked = list(dict.fromkeys([*known.not_checked, *found.not_checked]))

    def _change(self, waiting: int, undecided: str) -> Change:
        """`undecided`: why this round did not come to an end; the next may."""
        known = self._known
        verdict = Audit(self._request.guarantee, "", [known], undecided=undecided).verdict
        said = "; ".join(filter(None, (undecided, known.undecided)))
        totals, left = dict(known.totals), tuple(known.not_checked)
        return Change(datetime.now(UTC), verdict, known.landed, waiting, totals, said, left)


_BREAKS = (Anomaly.SPAN_GAP, Anomaly.SPAN_OVERLAP)
Break = tuple[Anomaly, str | None, int | None, int | None, int]  # with its place, however it is said


def _break(one: Finding) -> Break:
    return one.code, one.topic, one.partition, one.offset, one.times


def _adds_up(request: AuditRequest) -> bool:
    """Is what was found right of a part right for ever, whatever comes behind it?"""
    if request.id_column or request.mode is not Mode.APPEND:
        return False
    landed = what_landed(request)
    return isinstance(landed, LandedRows) and landed.provenance
