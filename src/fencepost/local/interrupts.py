"""Ctrl-C and SIGTERM at a moment of our choosing."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held_back() -> Iterator[None]:
    """Whatever interrupts the block takes effect right after it: for steps that must not be torn apart."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is ever interrupted
        return
    arrived: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        arrived.append(number)

    before = {number: signal.signal(number, remember) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in arrived:
            os.kill(os.getpid(), late)


@contextmanager
def terminating() -> Iterator[None]:
    """SIGTERM and a closed terminal unwind the block as Ctrl-C does, so that what it started is ended.

    One is enough: those that come while it unwinds do not tear that apart. Whoever handles or ignores them already goes
    on doing so; only the main thread can be interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, _leaving)  # not SIG_IGN, which programs that are started would inherit
        raise SystemExit(128 + number)

    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    before = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leaving(_number: int, _frame: FrameType | None) -> None:
    """It ends already."""
