"""What a story showed: how many were acknowledged, are in the log, are lost, are doubled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fencepost.audit.compare import compare_log
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

    def __str__(self) -> str:
        notes = "".join(f"; {note}" for note in self.notes)
        counts = f"acked {self.acked}, in the log {self.in_log}, lost {self.lost}, doubled {self.doubled}"
        return f"{self.setting}: {counts}{notes}"


def shown(setting: str, outcomes: Mapping[bytes, Outcome], log: Iterable[bytes], *notes: str) -> Shown:
    """By comparing every value with what its sender was told."""
    result = compare_log(outcomes, log)
    acked = sum(outcome is Outcome.ACKED for outcome in outcomes.values())
    return Shown(setting, acked, result.landed, result.lost, result.duplicated, notes)


@dataclass(frozen=True)
class Story:
    """One fault, told with what is not enough and with what is."""

    name: str
    tells: str
    tell: Callable[[Field], tuple[Shown, Shown]]  # not enough, enough
