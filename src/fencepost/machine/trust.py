"""Whose files are believed without being named: those that nobody but we or root could have written.

A pipeline file names code that runs as us, and a stack's home names processes that we end. As git and ssh do, one
that is only found, in a folder that somebody else may write to, is refused. A path that a person types is his word.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path

from fencepost.errors import Usage

ROOT = 0


def believed() -> set[int]:
    """Ourselves and root; under sudo also whoever called it."""
    caller = os.environ.get("SUDO_UID", "") if os.geteuid() == ROOT else ""
    return {ROOT, os.geteuid(), *([int(caller)] if caller.isdecimal() else [])}


def require_ours(path: Path, remedy: str, like: Path | None = None) -> None:
    """Raises Usage, with who it is, where somebody else could have written the file or its folder.

    `like`: a file that is believed already; its owner and its group may write this one too.
    """
    doubt = _doubt(path, like)
    if doubt:
        raise Usage(f"{path} is not used: {doubt}", remedy)


def require_facts(path: Path, facts: os.stat_result, remedy: str) -> None:
    """The same for one file or folder by itself, going by these facts."""
    doubt = objection(path, facts, believed())
    if doubt:
        raise Usage(f"{path} is not used: {doubt}", remedy)


def _doubt(path: Path, like: Path | None) -> str | None:
    owners, groups = believed(), set[int]()
    if like is not None:
        facts = like.stat()
        owners.add(facts.st_uid)
        groups |= {facts.st_gid} if facts.st_mode & stat.S_IWGRP else set()
    real = path.resolve()
    steps = dict.fromkeys((path.absolute(), path.absolute().parent, real, real.parent))
    found = (objection(step, step.lstat(), owners, groups) for step in steps)
    return next(filter(None, found), None)


def objection(path: Path, facts: os.stat_result, owners: Iterable[int], groups: Iterable[int] = ()) -> str | None:
    """Why somebody else could have written it, going by these facts; None where nobody could."""
    if facts.st_uid not in owners:
        return f"{path} belongs to {_user(facts.st_uid)}"
    if stat.S_ISLNK(facts.st_mode) or facts.st_mode & stat.S_ISVTX:
        return None  # who else may write to a sticky folder cannot touch our files in it
    if facts.st_mode & stat.S_IWOTH:
        return f"everybody can write to {path}"
    if facts.st_mode & stat.S_IWGRP and facts.st_gid not in groups and not _private(facts.st_gid, facts.st_uid):
        return f"group {_group(facts.st_gid)} can write to {path}"
    return None


def _private(gid: int, uid: int) -> bool:
    """Is it a group of one user, as many systems make one for each?"""
    try:
        name = pwd.getpwuid(uid).pw_name
        members = set(grp.getgrgid(gid).gr_mem) | {one.pw_name for one in pwd.getpwall() if one.pw_gid == gid}
    except KeyError:
        return False
    return members <= {name}


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
