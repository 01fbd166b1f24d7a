"""Which stack a command means when it is told nothing."""

from __future__ import annotations

import os
from pathlib import Path

from fencepost.local import state
from fencepost.local.stack import DEFAULT_HOME, Node, Stack

__all__ = ["DEFAULT_HOME", "Node", "Stack", "nearest_home", "running"]

HOME_VARIABLE = "FENCEPOST_HOME"


def nearest_home() -> Path:
    """FENCEPOST_HOME; else the `.fencepost` with a stack in this folder or the nearest above; else that of this one."""
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named)
    here = Path.cwd()
    candidates = (folder / DEFAULT_HOME for folder in (here, *here.parents))
    return next((home for home in candidates if state.path(home).exists()), here / DEFAULT_HOME)


def running(home: Path | None = None) -> Stack | None:
    """The stack of this home, or of the nearest, if a broker of it or its PostgreSQL is alive."""
    stack = Stack(home or nearest_home())
    return stack if any(node.alive for node in (*stack.brokers.values(), stack.postgres)) else None
