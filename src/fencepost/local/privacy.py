"""A home is for its owner alone: its folder, its data and its logs. Only PostgreSQL may run as somebody else in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO


def mode() -> int:
    """Of the home: root's PostgreSQL runs as another account, which must pass through, and see nothing on its way."""
    return 0o711 if os.geteuid() == 0 else 0o700


def append(path: Path) -> IO[str]:
    """Open a file that nobody else reads, nor locks."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "a+")


def tighten(home: Path, ours: Collection[str]) -> None:
    """Close what an earlier version or a loose umask left open. A folder that holds other things keeps its mode."""
    if all(entry.name in ours for entry in home.iterdir()):
        _close(home, mode())
    _close(home / "kafka", 0o700)
    for file in _files(home):
        _close(file, 0o600)


def _files(home: Path) -> Iterator[Path]:
    yield from (home / name for name in ("lock", "state.json", "postgres.log", "postgres.old.log"))
    yield from home.glob("kafka/*/*.log")


def _close(path: Path, allowed: int) -> None:
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISLNK(facts.st_mode) and stat.S_IMODE(facts.st_mode) & ~allowed:
        path.chmod(stat.S_IMODE(facts.st_mode) & allowed)
