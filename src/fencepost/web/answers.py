"""What was asked of the cluster a moment ago, for everybody who asks the same: N browsers are one.

One thread asks, the others wait for its answer. An answer stays for as long as its question says, an error too, so that
a cluster that is down is not asked again by every browser; the last good answer is kept beside the error.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import BoundedSemaphore, Lock, local
from typing import Any, Generic, TypeVar, cast

from fencepost.errors import FencepostError, Unreachable

T = TypeVar("T")
MOST = 500  # questions that are remembered
AT_ONCE = 8  # questions under way
PATIENCE_SECONDS = 30.0
ERROR_SECONDS = 3.0


@dataclass(frozen=True)
class Answer(Generic[T]):
    """The newest good value, if there ever was one, and what went wrong since."""

    value: T | None
    at: datetime | None  # of the value
    error: FencepostError | None = None

    def require(self) -> T:
        """The value as of now. Raises the error of the last try."""
        if self.error is not None:
            raise self.error
        return cast(T, self.value)


@dataclass
class _Question:
    lock: Lock = field(default_factory=Lock)
    answer: Answer[Any] = field(default_factory=lambda: Answer(None, None))
    until: float = 0.0  # a fresh one is asked for after that


class Answers:
    """Remembers, and sees to it that nobody asks twice at the same moment. For any number of threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._questions: OrderedDict[Hashable, _Question] = OrderedDict()
        self._lock = Lock()
        self._room = BoundedSemaphore(AT_ONCE)
        self._thread = local()
        self.asked = 0  # how often somebody really asked

    def get(self, key: Hashable, ask: Callable[[], T], fresh: float = 2.0) -> Answer[T]:
        """The answer, at most `fresh` seconds old, or the error. Raises what is no FencepostError."""
        question = self._question(key)
        if not question.lock.acquire(timeout=PATIENCE_SECONDS):
            return Answer(question.answer.value, question.answer.at, _busy())
        try:
            if self._clock() >= question.until:
                question.answer = self._asked(question.answer, ask)
                pause = ERROR_SECONDS if question.answer.error else fresh
                question.until = self._clock() + pause
            return question.answer
        finally:
            question.lock.release()

    def known(self, key: Hashable) -> Answer[Any]:
        """What was answered last, however long ago; nobody is asked."""
        with self._lock:
            question = self._questions.get(key)
        return question.answer if question else Answer(None, None)

    def forget(self, *keys: Hashable) -> None:
        """What was changed is asked for anew."""
        with self._lock:
            for key in keys:
                self._questions.pop(key, None)

    def _asked(self, before: Answer[T], ask: Callable[[], T]) -> Answer[T]:
        inside = getattr(self._thread, "inside", False)  # a question that asks another has its place already
        if not inside and not self._room.acquire(timeout=PATIENCE_SECONDS):
            return Answer(before.value, before.at, _busy())
        self._thread.inside = True
        try:
            self.asked += 1
            return Answer(ask(), datetime.now(UTC))
        except FencepostError as error:
            return Answer(before.value, before.at, error.with_traceback(None))
        finally:
            if not inside:
                self._thread.inside = False
                self._room.release()

    def _question(self, key: Hashable) -> _Question:
        with self._lock:
            question = self._questions.setdefault(key, _Question())
            self._questions.move_to_end(key)
            while len(self._questions) > MOST:
                self._questions.popitem(last=False)
            return question


def _busy() -> Unreachable:
    return Unreachable("too many questions are under way", "try again in a moment")
