"""Which stack a command means when it is told nothing."""

from __future__ import annotations

import os
from pathlib import Path

from fencepost.errors import Usage
from fencepost.local import state
from fencepost.local.stack import DEFAULT_HOME, Node, Stack
from fencepost.machine.trust import require_facts

__all__ = ["DEFAULT_HOME", "Node", "Stack", "nearest_home", "running"]

HOME_VARIABLE = "FENCEPOST_HOME"


def nearest_home() -> Path:
    """FENCEPOST_HOME; else the `.fencepost` with a stack in this folder or the nearest above; else that of this one.

    One that we may not enter is passed over; raises Usage for one that somebody else could have put there.
    """
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named)
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise Usage("the working directory no longer exists", "change to another folder") from None
    candidates = (folder / DEFAULT_HOME for folder in (here, *here.parents))
    found = next((home for home in candidates if os.path.lexists(state.path(home))), None)
    if found is None:
        return here / DEFAULT_HOME
    elsewhere = f"choose a folder of your own with --home DIR or {HOME_VARIABLE}"
    require_facts(found, found.lstat(), elsewhere)
    require_facts(found.resolve(), found.stat(), elsewhere)
    return found


def running(home: Path | None = None) -> Stack | None:
    """The stack of this home, or of the nearest, if a broker of it or its PostgreSQL is alive."""
    stack = Stack(home or nearest_home())
    return stack if any(node.alive for node in (*stack.brokers.values(), stack.postgres)) else None
