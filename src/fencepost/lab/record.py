"""The folder of a run: what happened, in order, as JSON lines; logs; what passed the proxies; the verdict."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, time
from typing import Annotated, Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fencepost.errors import Usage
from fencepost.lab.judge import Judgement
from fencepost.machine import disk
from fencepost.machine.plain_json import dumped

HOME = Path("fencepost-lab")
HISTORY, VERDICT = "history.jsonl", "verdict.json"
_NAME = re.compile(r"\d{8}-\d{9}-[a-z0-9-]+-[0-9a-f]{4}", re.ASCII)
_ELSEWHERE = "choose another folder with --home DIR"
LARGEST = 64 << 20  # bytes of a file of a run that is read again
Say = Callable[[str], None]
Moment = Annotated[float, Field(ge=0, le=1e11)]  # in seconds
Count = Annotated[int, Field(ge=0, le=2**53)]


def make_home(home: Path) -> None:
    """Where runs are kept, before anything is started for one. Raises Usage."""
    try:
        if not home.exists():
            home.mkdir(parents=True, exist_ok=True)  # another lab may be as far
            (home / ".gitignore").write_text("*\n")  # of a folder that is ours alone
        usable = home.is_dir() and os.access(home, os.W_OK | os.X_OK)
    except OSError as error:
        raise Usage(f"{home} cannot be made: {error.strerror}", _ELSEWHERE) from error
    if not usable:
        raise Usage(f"{home} is no folder that runs can be kept in", _ELSEWHERE)


class History:
    """One run's, written line by line, so that a run that is killed has one too."""

    def __init__(self, folder: Path, say: Say) -> None:
        self.folder = folder
        self._say = say
        self._start = monotonic()

    @classmethod
    def begin(cls, home: Path, name: str, say: Say) -> History:
        """In a new folder, which is only ours to read."""
        make_home(home)
        moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S%f")[:-3]
        folder = home / f"{moment}-{name}-{uuid4().hex[:4]}"
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise Usage(f"{folder} cannot be made: {error.strerror}", _ELSEWHERE) from error
        return cls(folder, say)

    @property
    def seconds(self) -> float:
        return monotonic() - self._start

    def tell(self, text: str, *, kind: str = "step", lane: str = "lab", run: str = "", **facts: Any) -> None:
        """One thing that happened now. Lanes: lab, producer, brokers, driver, sink. Runs: guarded, control."""
        seconds = self.seconds
        line = {"at": round(seconds, 3), "time": time(), "kind": kind, "lane": lane, "run": run, "text": text, **facts}
        with (self.folder / HISTORY).open("a") as file:
            file.write(dumped(line) + "\n")
        self._say(f"  {seconds:6.1f} s  {f'{run}: ' if run else ''}{text}")

    def end(self, verdict: dict[str, Any]) -> None:
        disk.write(self.folder / VERDICT, dumped(verdict) + "\n")


def folder_of(home: Path, run: str) -> Path:
    """The run of this name, or the only one whose name holds it; `last` is the newest. Raises Usage."""
    known = runs(home)
    if not known:
        raise Usage(f"there is no run in {home}", "make one: fencepost lab run NAME")
    found = known[-1:] if run == "last" else [one for one in known if run in one.name]
    if len(found) != 1:
        several = f"{len(found)} runs match {run}" if found else f"there is no run {run} in {home}"
        raise Usage(several, f"give one of them in full, as in {(found or known)[-1].name}")
    return found[0]


def runs(home: Path) -> list[Path]:
    """Every run's folder, the oldest first."""
    return sorted(one for one in home.iterdir() if is_run(one.name)) if home.is_dir() else []


def is_run(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


class Line(BaseModel):
    """One thing that happened, as `History.tell` has written it."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)
    at: Moment
    time: Moment | None = None
    kind: str
    lane: str = "lab"
    run: str = ""
    text: str
    lost: list[int] | None = None
    doubled: list[int] | None = None
    lost_count: Count | None = None
    doubled_count: Count | None = None


class Told(BaseModel):
    """What every verdict has, whatever was played."""

    name: str
    verdict: Judgement
    reason: str
    command: str


def history_of(folder: Path, most: int = LARGEST) -> list[dict[str, Any]]:
    """What happened, in order; a line that was cut by a kill is left out. Raises Usage where it cannot be read."""
    path = folder / HISTORY
    try:
        lines = content(path, most).splitlines(keepends=True)
        whole = [Line.model_validate_json(line) for line in lines if line.endswith("\n")]
    except FileNotFoundError:
        return []
    except (OSError, ValidationError) as error:
        raise Usage(f"the history of {folder.name} cannot be read", f"see {path}") from error
    return [line.model_dump(exclude_none=True) for line in whole]


def verdict_of(folder: Path) -> dict[str, Any] | None:
    """None where the run never came to one that can be read."""
    try:
        text = content(folder / VERDICT, LARGEST)
        Told.model_validate_json(text)
    except (OSError, Usage, ValidationError):
        return None
    found: dict[str, Any] = json.loads(text)
    return found


def content(path: Path, most: int) -> str:
    """Of a regular file of so many bytes: others may never end. Raises OSError, Usage."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise Usage(f"{path} is not a file")
        if facts.st_size > most:
            raise Usage(f"{path.name} of {path.parent.name} is too long to be shown", f"see {path}")
        return file.read(most).decode(errors="replace")
