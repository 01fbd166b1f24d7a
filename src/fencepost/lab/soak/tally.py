"""What a soak has done so far, and its verdict. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import quantiles

from fencepost.audit.compare import Comparison
from fencepost.lab.judge import Judgement
from fencepost.machine.counting import count


@dataclass
class Tally:
    """What was done so far."""

    blows: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    hit: int = 0  # strikes at a moment with events between producer and sink
    recoveries: list[float] = field(default_factory=list)  # from the strikes until something landed again

    def percentile(self, share: float) -> float | None:
        if len(self.recoveries) < 2:
            return self.recoveries[0] if self.recoveries else None
        return round(quantiles(self.recoveries, n=100, method="inclusive")[round(share * 100) - 1], 2)


def judged(result: Comparison, hit: int, trouble: str) -> tuple[Judgement, str]:
    """Exactly once: nothing lost, doubled or invented, whatever else went wrong."""
    if trouble:
        return Judgement.INCONCLUSIVE, trouble
    if result.findings:
        counts = f"lost {result.lost:,}, doubled {result.duplicated:,}, phantom {result.phantom:,}"
        return Judgement.BROKEN, f"of {count(result.expected, 'event')} {counts}"
    if not hit:
        return Judgement.VACUOUS, "no strike hit events on their way"
    return (
        Judgement.HOLDS,
        f"{count(result.expected, 'event')}, lost 0, doubled 0, after {hit} strikes that hit some on their way",
    )
