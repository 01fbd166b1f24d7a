"""What a story showed: how many were acknowledged, are in the log, are lost, are doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from fencepost.audit.compare import Comparison, compare_log
from fencepost.guarantee import Anomaly
from fencepost.lab.scenarios.field import Field
from fencepost.model import Outcome


@dataclass(frozen=True)
class Shown:
    """One telling of a story."""

    setting: str
    acked: int
    in_log: int
    lost: int
    doubled: int
    notes: tuple[str, ...] = ()  # what else was seen
    anomalies: Mapping[Anomaly, int] = field(default_factory=dict)
    sent: int = 0
    witnessed: int = 0  # how often the fault was seen to fire
    in_flight: int = 0  # events that were on their way then

    def hit(self, times: int, in_flight: int) -> Shown:
        """The fault was seen to fire so often, with so many events on their way."""
        return replace(self, witnessed=times, in_flight=in_flight)

    def also(self, code: Anomaly, count: int) -> Shown:
        """What no comparison of values shows."""
        return replace(self, anomalies={**self.anomalies, code: count})

    def __str__(self) -> str:
        notes = "".join(f"; {note}" for note in self.notes)
        counts = f"acked {self.acked}, in the log {self.in_log}, lost {self.lost}, doubled {self.doubled}"
        return f"{self.setting}: {counts}{notes}"


def shown(setting: str, outcomes: Mapping[bytes, Outcome], log: Iterable[bytes], *notes: str) -> Shown:
    """By comparing every value with what its sender was told."""
    result = compare_log(outcomes, log)
    acked = sum(outcome is Outcome.ACKED for outcome in outcomes.values())
    lost, doubled = result.lost, result.duplicated
    return Shown(setting, acked, result.landed, lost, doubled, notes, counted(result), len(outcomes))


def counted(result: Comparison) -> Counter[Anomaly]:
    """In events: how many too few, or too many, of each kind."""
    found = Counter[Anomaly]()
    for finding in result.findings:
        found[finding.code] += abs(finding.times - finding.expected)
    return found


@dataclass(frozen=True)
class Story:
    """One fault, told with what is not enough and with what is."""

    name: str
    tells: str
    tell: Callable[[Field], tuple[Shown, Shown]]  # not enough, enough
