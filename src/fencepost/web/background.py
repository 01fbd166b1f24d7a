"""What is asked whether or not somebody looks: searches that take long, and the history. One thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event, Thread
from typing import Self

from fencepost.errors import FencepostError


@dataclass
class Chore:
    """Something that is done again and again."""

    every: float
    do: Callable[[], object]
    due: float = 0.0
    trouble: FencepostError | None = None  # of the last time; the next is tried all the same


class Background:
    """Runs inside a `with` block."""

    def __init__(self, chores: Sequence[Chore]) -> None:
        self.chores = chores
        self._ending = Event()
        self._thread = Thread(target=self._work, name="fencepost-web-background", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ending.set()
        self._thread.join(5)

    def _work(self) -> None:
        while not self._ending.is_set():
            for chore in self.chores:
                if time.monotonic() >= chore.due:
                    self._do(chore)
            wait = min((chore.due for chore in self.chores), default=1.0) - time.monotonic()
            self._ending.wait(max(wait, 0.1))

    def _do(self, chore: Chore) -> None:
        try:
            chore.do()
            chore.trouble = None
        except FencepostError as error:
            chore.trouble = error
        except Exception as error:  # one bad answer must not end what the others wait for
            logging.getLogger(__name__).exception("a question in the background failed")
            chore.trouble = FencepostError(f"{type(error).__name__}: this was not foreseen", "please report it")
        chore.due = time.monotonic() + chore.every
