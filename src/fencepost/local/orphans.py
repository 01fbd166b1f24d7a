"""Processes of a home that nothing remembers: left by a start that was killed before it could write them down.

They are known by their exact command line, or as PostgreSQL's programs at work in this home's database.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path

import psutil

from fencepost.local import kafka, postgres
from fencepost.machine import process
from fencepost.machine.process import Identity

_PATIENCE = 10.0
_PROGRAMS = {"postgres", "initdb"}


class Kind(Enum):
    """What ends each, in the order in which they can: a broker waits for its controller."""

    DATABASE = signal.SIGQUIT  # at once, even a process whose server is gone
    BROKER = signal.SIGTERM
    CONTROLLER = signal.SIGINT  # the same to Java


Orphan = tuple[Identity, Kind]


def find(home: Path, known: Iterable[Identity], database: Path | None = None) -> list[Orphan]:
    """Those of this home that are neither known nor descend from one that is."""
    expected = {member for identity in known for member in process.family(identity)}
    return [stray for stray in _processes(home, database) if stray[0] not in expected]


def _processes(home: Path, database: Path | None) -> Iterator[Orphan]:
    folders = {str(database / name) for name in ("data", "data.draft")} if database else set()
    for entry in psutil.process_iter(["name", "cmdline", "cwd"]):
        words = entry.info["cmdline"] or []
        kind = None
        if kafka.home_option(home) in words:
            kind = _java(words)
        elif entry.info["name"] in _PROGRAMS and _at_work(words, entry.info["cwd"], home, folders):
            kind = Kind.DATABASE
        if kind and (identity := process.identify(entry.pid)):
            yield identity, kind


def _java(words: list[str]) -> Kind | None:
    if kafka.SERVER not in words and kafka.FORMATTER not in words:
        return None
    return Kind.CONTROLLER if kafka.node_option(kafka.CONTROLLER) in words else Kind.BROKER


def _at_work(words: list[str], folder: str | None, home: Path, folders: set[str]) -> bool:
    return postgres.home_option(home) in words or folder in folders or not folders.isdisjoint(words)


def end(found: Iterable[Orphan]) -> None:
    everyone = list(found)
    for kind in Kind:
        process.end([identity for identity, its in everyone if its is kind], kind.value, _PATIENCE)
