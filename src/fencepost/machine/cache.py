"""The folder that all stacks of a user share: jars, and what is derived from them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import platformdirs

from fencepost.machine import disk
from fencepost.machine.progress import Progress


def folder() -> Path:
    """Where it is: FENCEPOST_CACHE, or the user's cache directory."""
    return Path(os.environ.get("FENCEPOST_CACHE") or platformdirs.user_cache_dir("fencepost")).absolute()


def explained() -> AbstractContextManager[None]:
    """What the file system refuses in here, as an error that says what to do."""
    return disk.explained(folder(), "set FENCEPOST_CACHE to another folder")


@contextmanager
def exclusive(name: str, progress: Progress) -> Iterator[Path]:
    """One process at a time in this part of the cache; gives its folder."""
    part = folder() / name
    part.mkdir(parents=True, exist_ok=True)
    with (folder() / f"{name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.note(f"another process is at work in {part}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield part
