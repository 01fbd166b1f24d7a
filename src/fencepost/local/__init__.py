"""The local stack: real brokers and a real PostgreSQL on this machine. Only commands, the lab and tests import it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.local.discovery import nearest_home, running
    from fencepost.local.stack import DEFAULT_HOME, Node, Stack

__all__ = ["DEFAULT_HOME", "Node", "Stack", "nearest_home", "running"]


def __getattr__(name: str) -> object:
    """Looked up when asked for: `python -m fencepost.machine.java` needs neither the stack nor what that imports."""
    if name not in __all__:
        raise AttributeError(name)
    return getattr(importlib.import_module("fencepost.local.discovery"), name)
