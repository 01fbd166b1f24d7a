"""How the demo speaks: one line per step, with the time since the start."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class StepLog:
    """Says each step with the seconds that have passed."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._start = monotonic()

    def chapter(self, title: str) -> None:
        self._say("")
        self._say(title)

    def step(self, text: str) -> None:
        self._say(f"  {monotonic() - self._start:6.1f} s  {text}")
