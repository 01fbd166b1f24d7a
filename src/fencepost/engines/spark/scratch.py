"""A folder for what need not outlive this process, and the end of those whose processes are gone.

A process holds the lock of its folder for as long as it lives, however it ends: who gets the lock of another folder
knows that nobody needs it any more. No pid is compared, so that containers may share the place.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

PREFIX = "fencepost-scratch-"


@cache
def folder() -> Path:
    """This process's own, made at first use, when leftovers of others are cleared away too."""
    clear_leftovers()
    path = _made()
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@contextmanager
def subfolder(name: str) -> Iterator[Path]:
    """A folder in it, for the block."""
    path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder()))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def clear_leftovers() -> None:
    """Remove the folders of processes that ended without doing it themselves."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        lock = _lock(path)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _made() -> Path:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = _lock(path)
        if lock is not None and path.exists():
            return path  # the lock stays open until the process ends
        if lock is not None:  # somebody took it for a leftover, before it was locked
            os.close(lock)


def _lock(path: Path) -> int | None:
    """The folder, open and locked; None where another holds it, where it is gone, or not ours to open."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
