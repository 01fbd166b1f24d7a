"""An audit that goes on: only the spans that are new are compared each time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fencepost.audit.auditing import audit_scope
from fencepost.audit.compare import Verdict
from fencepost.audit.findings import Audit, Hop
from fencepost.audit.request import AuditRequest
from fencepost.audit.scope import Scope, find_scope
from fencepost.cluster.failures import NotLetIn
from fencepost.errors import FencepostError, Usage
from fencepost.guarantee import Anomaly
from fencepost.model import Span, TopicPartition


@dataclass(frozen=True)
class Change:
    """What is known after a round that differs from what was known before."""

    at: datetime
    verdict: Verdict
    compared: int  # rows, since the beginning
    waiting: int
    totals: Mapping[Anomaly, int]
    undecided: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "at": self.at.isoformat(timespec="seconds"),
            "verdict": self.verdict.value,
            "landed": self.compared,
            "waiting": self.waiting,
            "anomalies": {code.value: count for code, count in sorted(self.totals.items()) if count},
            "undecided": self.undecided or None,
        }

    def line(self) -> str:
        found = (
            ", ".join(f"{code} {count:,}" for code, count in sorted(self.totals.items()) if count) or "nothing found"
        )
        aside = f"; {self.undecided}" if self.undecided else ""
        return (
            f"{self.at:%H:%M:%S}  {self.verdict}: {self.compared:,} rows compared, {found}, "
            f"{self.waiting:,} offsets wait{aside}"
        )

    def says_the_same_as(self, other: Change | None) -> bool:
        return other is not None and replace(self, at=other.at) == other


def watch(request: AuditRequest, every: float) -> Iterator[Change]:
    """Rounds for as long as somebody asks for the next; only those that change something are told."""
    rounds = Rounds(request)
    told: Change | None = None
    while True:
        change = rounds.next()
        if not change.says_the_same_as(told):
            told = change
            yield change
        time.sleep(every)


class Rounds:
    """Remembers up to where was compared, and what was found."""

    def __init__(self, request: AuditRequest) -> None:
        self._request = request
        self._reached: dict[TopicPartition, int] = {}
        self._totals: Counter[Anomaly] = Counter()
        self._compared = 0

    def next(self) -> Change:
        try:
            scope = find_scope(self._request)
            found = audit_scope(self._request, self._new(scope))
        except (Usage, NotLetIn):
            raise
        except FencepostError as error:
            return self._change(0, str(error))
        self._totals += found.totals
        self._compared += found.hops[-1].landed if found.hops else 0
        self._reached = {at: span.end for at, span in scope.ranges.items()}
        return self._change(sum(scope.waiting(at) for at in scope.ranges), "")

    def _new(self, scope: Scope) -> Scope:
        """What lies beyond the last round, and the last span before it, to which the next must connect."""
        ranges = {
            at: Span(max(span.start, min(self._reached.get(at, span.start), span.end)), span.end)
            for at, span in scope.ranges.items()
        }
        spans = [one for one in scope.spans if one.span.end >= self._reached.get(one.partition, 0)]
        return replace(scope, ranges=ranges, spans=spans)

    def _change(self, waiting: int, undecided: str) -> Change:
        known = Audit(self._request.guarantee, "", [Hop("", "", totals=self._totals)], undecided=undecided)
        return Change(datetime.now(UTC), known.verdict, self._compared, waiting, dict(self._totals), undecided)
