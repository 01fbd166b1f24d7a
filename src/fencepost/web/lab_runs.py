"""The lab's runs in a folder: what each came to. Whatever a file there holds, the others are shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fencepost.errors import Usage
from fencepost.lab.kept import KeptVerdict
from fencepost.lab.record import VERDICT, content, history_of, runs, verdict_of
from fencepost.lab.report.timeline import picture_of

MOST = 1_000  # of the newest
LARGEST = 8 << 20  # bytes of a history that is shown
_NAME = re.compile(r"(?P<moment>\d{8}-\d{6})\d*-(?P<scenario>.+)-[0-9a-f]+")


@dataclass(frozen=True)
class LabRun:
    """One run; without a verdict where it came to none, or is under way."""

    folder: Path
    began: datetime
    scenario: str
    verdict: KeptVerdict | None

    @property
    def name(self) -> str:
        return self.folder.name

    def history(self) -> list[dict[str, Any]]:
        """What happened, in order. Raises Usage where that cannot be shown."""
        return history_of(self.folder, LARGEST)

    def picture(self, run: str) -> str:
        """Of the guarded run or the control; nothing where there is nothing to draw."""
        told = verdict_of(self.folder) if self.verdict else None
        return picture_of(self.folder, told, run, LARGEST) if told else ""


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


def _verdict(path: Path) -> KeptVerdict | None:
    try:
        return KeptVerdict.model_validate_json(content(path, LARGEST))
    except (OSError, Usage, ValidationError):
        return None
