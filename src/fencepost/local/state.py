"""What is remembered of a stack: ports, processes, what was asked for. And who may change it: one at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from fencepost.errors import Usage
from fencepost.local import privacy
from fencepost.local.kafka import NODE_IDS, Tuning, new_id
from fencepost.local.postgres import NAME as POSTGRES
from fencepost.machine import disk
from fencepost.machine.process import Identity
from fencepost.machine.progress import Progress
from fencepost.machine.trust import require_facts

NAMES = (*NODE_IDS, POSTGRES)


class Record(BaseModel):
    """One process of the stack."""

    model_config = ConfigDict(extra="forbid")
    ports: dict[str, int] = {}  # by listener
    process: Identity | None = None


class State(BaseModel):
    """The whole file. Written after every change, so that a crash forgets at most one process."""

    model_config = ConfigDict(extra="forbid")
    version: Literal[1] = 1
    cluster_id: str
    tuning: Tuning = Tuning()
    nodes: dict[str, Record]

    def ports(self) -> Mapping[str, Mapping[str, int]]:
        return {name: record.ports for name, record in self.nodes.items()}


def path(home: Path) -> Path:
    return home / "state.json"


def load(home: Path) -> State | None:
    """What was remembered; None when nothing was, or when what is there is damaged.

    Raises Usage where somebody else could have written it: the processes that it names are ended some day.
    """
    try:
        with path(home).open("rb") as file:
            require_facts(path(home), os.fstat(file.fileno()), "choose another folder with --home DIR")
            state = State.model_validate_json(file.read())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
    return state if set(state.nodes) == set(NAMES) else None


def save(home: Path, state: State) -> None:
    disk.write(path(home), state.model_dump_json(indent=1))


def new(home: Path) -> State:
    """A state that knows of no process. The cluster's id is that of the data, where there is some."""
    cluster_id = _cluster_id(home) or new_id()
    return State(cluster_id=cluster_id, nodes={name: Record() for name in NAMES})


def _cluster_id(home: Path) -> str | None:
    for meta in sorted(home.glob("kafka/*/data/meta.properties")):
        for line in meta.read_text(errors="replace").splitlines():
            if line.startswith("cluster.id="):
                return line.partition("=")[2]
    return None


@contextmanager
def exclusive(home: Path, progress: Progress) -> Iterator[None]:
    """One process at a time changes a stack; a second one says so, and waits."""
    if home.exists() and not home.is_dir():
        raise Usage(f"{home} is not a folder", "choose another with --home DIR")
    _make(home)
    while True:
        with privacy.append(home / "lock") as lock:
            _acquire(lock, home, progress)
            if not _same(lock, home / "lock"):
                _make(home)
                continue  # whoever had it has wiped the home meanwhile
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield
            return


def _make(home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    home.mkdir(mode=privacy.mode(), exist_ok=True)


def _acquire(lock: IO[str], home: Path, progress: Progress) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        progress.note(
            f"another process ({lock.read() or 'pid unknown'}) is starting or stopping {home}: waiting for it"
        )
        fcntl.flock(lock, fcntl.LOCK_EX)


def _same(lock: IO[str], where: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock.fileno()), where.stat())
    except FileNotFoundError:
        return False
