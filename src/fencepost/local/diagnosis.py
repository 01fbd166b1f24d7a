"""Why a process of the stack ended: what its logs say since it was started, or what the disk says when they cannot."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

_COMPLAINT = re.compile(r"(?:\] (?:ERROR|FATAL) |(?:FATAL|PANIC|ERROR|error): +)(?P<text>.+)")
_CAUSE = re.compile(r"^(?:Caused by: )?(?P<text>[\w.$]+(?:Exception|Error)\b.*)")
_NOTHING_LEFT = 1024 * 1024
_LONGEST = 300


def sizes(logs: Iterable[Path]) -> dict[Path, int]:
    """How long the logs are now: what comes later belongs to the next start."""
    return {log: log.stat().st_size if log.exists() else 0 for log in logs}


def explain(logs: Mapping[Path, int]) -> str:
    """One line: the complaint that stands last in the logs, and in which log."""
    log = next(iter(logs))
    if shutil.disk_usage(log.parent).free < _NOTHING_LEFT:
        return f"the disk is full (see {log})"
    for log, start in logs.items():
        if found := _last_complaint(_since(log, start)):
            return f"{found[:_LONGEST]} (see {log})"
    for log, start in logs.items():
        if lines := _since(log, start).split("\n"):
            last = next((line for line in reversed(lines) if line.strip()), "")
            if last:
                return f"{last[:_LONGEST]} (see {log})"
    return f"no output (see {log})"


def _since(log: Path, start: int) -> str:
    if not log.exists():
        return ""
    with log.open("rb") as content:
        content.seek(start if start <= log.stat().st_size else 0)  # a log that was begun again is shorter
        return content.read().decode(errors="replace")


def _last_complaint(text: str) -> str | None:
    """The last error with its innermost cause, if a stack of them follows."""
    found: str | None = None
    cause: str | None = None
    for line in text.splitlines():
        if complaint := _COMPLAINT.search(line):
            found, cause = complaint["text"], None
        elif reason := _CAUSE.match(line):
            found, cause = found or reason["text"], reason["text"]
    return f"{found}: {cause}" if found and cause and cause not in found else found
