"""Callbacks that a client of the driver's may keep without keeping whoever made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakMethod


def weakly(method: Callable[..., Any]) -> Callable[..., None]:
    """For a bound method: who owns the client and is called by it would otherwise wait for Python's collector.

    That comes seldom in a large process, and each client that waits holds one of the thousand keys for storage of
    threads that a process may have: where they are used up, no client can be made.
    """
    owner = WeakMethod(method)

    def call(*arguments: Any) -> None:
        if (found := owner()) is not None:
            found(*arguments)

    return call
