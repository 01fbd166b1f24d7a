"""The lab's runs in a folder: what each came to. Whatever a file there holds, the others are shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fencepost.errors import Usage
from fencepost.lab.record import HISTORY, VERDICT, history_of, runs
from fencepost.lab.report.timeline import picture_of

MOST = 1_000  # of the newest
LARGEST = 8 << 20  # bytes of a history that is shown
_NAME = re.compile(r"(?P<moment>\d{8}-\d{6})\d*-(?P<scenario>.+)-[0-9a-f]+")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Witness(_Part):
    fired: int
    in_flight: int
    what: str = ""


class Trial(_Part):
    """The guarded run, or its control."""

    setting: str
    sent: int
    landed: int
    lost: int
    duplicated: int
    anomalies: dict[str, int] = Field(default_factory=dict)
    witness: Witness


class Verdict(_Part):
    """As the lab has written it."""

    name: str
    verdict: str
    reason: str
    fault: int
    tells: str
    guarantee: str
    engine: str
    sink: str
    seconds: float
    command: str
    guarded: Trial
    control: Trial


@dataclass(frozen=True)
class LabRun:
    """One run; without a verdict where it came to none, or is under way."""

    folder: Path
    began: datetime
    scenario: str
    verdict: Verdict | None

    @property
    def name(self) -> str:
        return self.folder.name

    def history(self) -> list[Mapping[str, Any]]:
        """What happened, in order. Raises Usage where that cannot be shown."""
        path = self.folder / HISTORY
        try:
            if path.stat().st_size > LARGEST:
                raise Usage(f"the history of {self.name} is too long to be shown", f"see {path}")
            lines = [line for line in history_of(self.folder) if {"at", "kind", "run", "text"} <= line.keys()]
            return [{**line, "at": float(line["at"])} for line in lines]
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise Usage(f"the history of {self.name} cannot be read", f"see {path}") from error

    def picture(self, run: str) -> str:
        """Of the guarded run or the control; nothing where there is nothing to draw."""
        try:
            return picture_of(self.folder, self._told(), run) if self.verdict else ""
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return ""

    def _told(self) -> Mapping[str, Any]:
        import json

        told: Mapping[str, Any] = json.loads((self.folder / VERDICT).read_text(encoding="utf-8"))
        return told


def read_runs(home: Path | None) -> list[LabRun]:
    """The newest first. Raises Usage."""
    if home is None:
        return []
    try:
        return [_run(folder) for folder in runs(home)[: -MOST - 1 : -1]]
    except OSError as error:
        raise Usage(f"the lab's runs in {home} cannot be read: {error.strerror}", "give --lab DIR") from error


def _run(folder: Path) -> LabRun:
    match = _NAME.fullmatch(folder.name)
    moment, scenario = (match["moment"], match["scenario"]) if match else ("", folder.name)
    try:
        began = datetime.strptime(moment, "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:  # a name that says no moment
        began = datetime.fromtimestamp(0, UTC)
    return LabRun(folder, began, scenario, _verdict(folder / VERDICT))


def _verdict(path: Path) -> Verdict | None:
    try:
        if path.stat().st_size > LARGEST:
            return None
        return Verdict.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
