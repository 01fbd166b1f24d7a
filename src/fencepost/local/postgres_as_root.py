"""Where PostgreSQL can live when we are root: it refuses to, and whoever runs it must reach binaries and data.

A checkout or a home below a private folder is out of reach for that user. Then the binaries are copied, and the
data put, into a folder that belongs to root and that others can pass through but not write to.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from fencepost.errors import Unreachable, Usage
from fencepost.machine.process import Account

_ACCOUNTS = ("postgres", "nobody")
_SYSTEM_FOLDERS = (Path("/var/lib"), Path("/var/tmp"))  # noqa: S108  (checked before use, see `_base`)

_PREFIX = "stack-"


def account() -> Account | None:
    """Whom PostgreSQL runs as: ourselves, unless we are root."""
    if os.geteuid() != 0:
        return None
    for name in _ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise Usage("PostgreSQL refuses to run as root", f"add a user named {_ACCOUNTS[0]}, or run as an ordinary user")


def accounts() -> set[int]:
    """Whom a PostgreSQL that root started may run as."""
    if os.geteuid() != 0:
        return set()
    return {entry.pw_uid for entry in pwd.getpwall() if entry.pw_name in _ACCOUNTS}


def may_enter(folder: Path, who: Account) -> bool:
    """Can this user pass through the folder and everything above it?"""
    return all(_passable(step.stat(), who) for step in (folder, *folder.parents))


def _passable(facts: os.stat_result, who: Account) -> bool:
    if facts.st_uid == who.uid:
        return bool(facts.st_mode & stat.S_IXUSR)
    if facts.st_gid == who.gid:
        return bool(facts.st_mode & stat.S_IXGRP)
    return bool(facts.st_mode & stat.S_IXOTH)


def data_folder(home: Path, who: Account | None) -> Path:
    """The folder of this home's database: inside it, or behind a link where the user could not get there."""
    folder = existing(home) or _make(home, who)
    if who and not may_enter(folder.parent, who):
        raise Usage(f"PostgreSQL runs as {who.name}, who cannot reach {folder}", "chmod o+x the folders above it")
    return folder


def _make(home: Path, who: Account | None) -> Path:
    folder = home / "postgres"
    if who and not may_enter(home, who):
        folder.unlink(missing_ok=True)  # a link to a folder that is gone
        folder.symlink_to(tempfile.mkdtemp(prefix=_PREFIX, dir=_base()))
        folder = folder.readlink()
    else:
        folder.mkdir(mode=0o700)
    if who:
        os.chown(folder, who.uid, who.gid, follow_symlinks=False)  # in a folder of ours
    return folder


def existing(home: Path) -> Path | None:
    """The folder of this home's database, if there is one."""
    link = home / "postgres"
    if not link.is_symlink():
        return link if link.exists() else None
    if not _ours(folder := link.readlink()):
        raise Usage(f"{link} leads to {folder}, which Fencepost did not create", f"remove {link}")
    return folder if folder.exists() else None


def remove(home: Path) -> None:
    """Remove the database of this home, wherever it is."""
    link = home / "postgres"
    if not link.is_symlink():
        if link.exists():
            shutil.rmtree(link)
        return
    if _ours(folder := link.readlink()) and folder.exists():
        shutil.rmtree(folder)
    link.unlink()


def binaries(installed: Path, shared_libraries: Path, version: str, who: Account | None) -> Path:
    """A folder with PostgreSQL's programs that the user can run: the installed one, or a copy."""
    if who is None or _runs(installed / "postgres", who):
        return installed
    copy = _base() / f"postgres-{version}"
    programs = copy / installed.relative_to(shared_libraries.parent)
    if not copy.exists():
        # The libraries are found by a path relative to the programs: both keep their places.
        with tempfile.TemporaryDirectory(prefix="copy-", dir=copy.parent) as draft:
            root = Path(draft) / "root"
            for source in (installed.parent, shared_libraries):
                if source.exists():
                    shutil.copytree(source, root / source.relative_to(shared_libraries.parent), symlinks=True)
            _open_to_all(root)
            with suppress(OSError):  # another process was quicker: its copy is as good, and is tried below
                root.rename(copy)
    if not _runs(programs / "postgres", who):
        raise Unreachable(f"{who.name} cannot run {programs / 'postgres'}", f"remove {copy} and try again")
    return programs


def _runs(program: Path, who: Account) -> bool:
    try:
        subprocess.run(
            [program, "--version"],
            user=who.uid,
            group=who.gid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _open_to_all(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def _base() -> Path:
    """A folder of root's that nobody else can have put there or can write to."""
    parent = next(folder for folder in _SYSTEM_FOLDERS if folder.is_dir())
    base = parent / "fencepost"
    try:
        base.mkdir(mode=0o755)
        base.chmod(0o755)
    except FileExistsError:
        pass
    facts = base.lstat()  # of the folder itself: a link to elsewhere is not one
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != 0 or facts.st_mode & 0o022:
        raise Usage(f"{base} is writable by others than root", "remove it: Fencepost creates it again")
    return base


def _ours(folder: Path) -> bool:
    return folder.parent == _base() and folder.name.startswith(_PREFIX) and not folder.is_symlink()
