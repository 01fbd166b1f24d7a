"""What a scenario showed, from what was counted: a pure function. Only HOLDS is green.

A guarantee is shown to hold where the fault was seen to fire, hit events on their way, left nothing behind that the
guarantee forbids, and did leave something behind under the weaker setting, the control.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fencepost.guarantee import ALLOWED, Anomaly, Guarantee, Ruling


class Judgement(StrEnum):
    """How a scenario ended."""

    HOLDS = "holds"
    BROKEN = "broken"
    INCONCLUSIVE = "inconclusive"
    VACUOUS = "vacuous"  # no fault, nothing on its way, or a control that shows nothing: it proves nothing

    @property
    def exit_code(self) -> int:
        return {Judgement.HOLDS: 0, Judgement.BROKEN: 1}.get(self, 5)


@dataclass(frozen=True)
class Trial:
    """One run under the fault: with the declared guarantee, or with the control's setting."""

    setting: str
    witnessed: int = 0  # how often the fault was seen to fire
    in_flight: int = 0  # events that were on their way then
    sent: int = 0
    landed: int = 0  # copies included
    anomalies: Mapping[Anomaly, int] = field(default_factory=dict)
    witness: str = ""  # where it was seen, in words
    stopped: str = ""  # the error with which it stopped instead of going on
    trouble: str = ""  # why it could not be brought to an end, or compared
    lost: tuple[int, ...] = ()  # the first of them
    doubled: tuple[int, ...] = ()
    of: str = ""  # the run in which it was played

    def found(self, guarantee: Guarantee, ruling: Ruling) -> dict[Anomaly, int]:
        """What is there of what the guarantee rules so."""
        return {code: count for code, count in self.anomalies.items() if count and _ruled(code, guarantee) is ruling}

    def unfinished(self, must_stop: str = "") -> str:
        """Why it did not come to the end that it has to come to."""
        return self.trouble or (f"it stopped with {self.stopped}" if self.stopped and not must_stop else "")

    def as_json(self) -> dict[str, object]:
        return {
            "setting": self.setting,
            "sent": self.sent,
            "landed": self.landed,
            "lost": self._total(Anomaly.LOST_BEFORE_LOG, Anomaly.LOST_BEFORE_SINK),
            "duplicated": self._total(Anomaly.DOUBLED_IN_LOG, Anomaly.DOUBLED_IN_SINK),
            "anomalies": {code.value: count for code, count in sorted(self.anomalies.items()) if count},
            "witness": {"fired": self.witnessed, "in_flight": self.in_flight, "what": self.witness},
            "first_lost": list(self.lost),
            "first_doubled": list(self.doubled),
            **({"run": self.of} if self.of else {}),
            **({"stopped": self.stopped} if self.stopped else {}),
            **({"trouble": self.trouble} if self.trouble else {}),
        }

    def _total(self, *codes: Anomaly) -> int:
        return sum(self.anomalies.get(code, 0) for code in codes)


@dataclass(frozen=True)
class Verdict:
    """The judgement, and why."""

    judgement: Judgement
    reason: str


def judge(guarantee: Guarantee, guarded: Trial, control: Trial, must_stop: str = "") -> Verdict:
    """`must_stop`: the error with which the guarded run has to stop, where going on could only lose or double.

    What breaks the guarantee counts whether the fault was seen or not; nothing else counts without it.
    """
    if broken := guarded.found(guarantee, Ruling.FORBIDDEN):
        return Verdict(Judgement.BROKEN, f"{guarantee} forbids {_said(broken)}")
    if (open_end := _undecided(guarantee, guarded, control, must_stop)) or (open_end := _unproven(guarded, control)):
        return open_end
    if must_stop and guarded.stopped != must_stop:
        return Verdict(Judgement.BROKEN, f"it did not stop with {must_stop}, but {guarded.stopped or 'went on'}")
    if not (shown := control.found(guarantee, Ruling.FORBIDDEN)):
        return Verdict(Judgement.VACUOUS, f"the control shows nothing that {guarantee} forbids")
    return Verdict(Judgement.HOLDS, f"clean where {control.setting} leaves {_said(shown)}")


def _undecided(guarantee: Guarantee, guarded: Trial, control: Trial, must_stop: str) -> Verdict | None:
    for name, trial in (("guarded", guarded), ("control", control)):
        if why := trial.unfinished(must_stop):
            return Verdict(Judgement.INCONCLUSIVE, f"the {name} run: {why}")
    if found := guarded.found(guarantee, Ruling.UNDECIDED):
        return Verdict(Judgement.INCONCLUSIVE, f"it cannot be decided: {_said(found)}")
    return None


def _unproven(guarded: Trial, control: Trial) -> Verdict | None:
    for name, trial in (("guarded", guarded), ("control", control)):
        if trial.witnessed < 1:
            return Verdict(Judgement.VACUOUS, f"the fault was not seen to fire in the {name} run")
        if trial.in_flight < 1:
            return Verdict(Judgement.VACUOUS, f"nothing was on its way when the fault fired in the {name} run")
    return None


def worst(judgements: Iterable[Judgement]) -> Judgement:
    """Of several: broken before undecided, undecided before good; of none, vacuous."""
    order = (Judgement.BROKEN, Judgement.INCONCLUSIVE, Judgement.VACUOUS, Judgement.HOLDS)
    found = set(judgements)
    return next((one for one in order if one in found), Judgement.VACUOUS)


def _ruled(code: Anomaly, guarantee: Guarantee) -> Ruling:
    return ALLOWED[code].under(guarantee)


def _said(counts: Mapping[Anomaly, int]) -> str:
    return ", ".join(f"{code} {count:,}" for code, count in sorted(counts.items()))
