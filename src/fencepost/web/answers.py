"""What was asked of the cluster a moment ago, for everybody who asks the same: N browsers are one.

One thread asks, the others wait for its answer. An answer stays for as long as its question says, an error too, so that
a cluster that is down is not asked again by every browser; the last good answer is kept beside the error.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock, local
from typing import Any, Generic, TypeVar, cast

from fencepost.errors import FencepostError, Unreachable

T = TypeVar("T")
MOST = 500  # questions that are remembered
LARGE, MOST_LARGE = {"parts", "place", "key", "id", "time"}, 20  # whose answers are records
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
    asking: Future[None] | None = None


class Answers:
    """Remembers, and sees to it that nobody asks twice at the same moment. For any number of threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._questions: OrderedDict[Hashable, _Question] = OrderedDict()
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(AT_ONCE, "fencepost-asking")
        self._thread = local()
        self.asked = 0  # how often somebody really asked

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def get(self, key: Hashable, ask: Callable[[], T], fresh: float = 2.0, wait: float = PATIENCE_SECONDS) -> Answer[T]:
        """The answer, at most `fresh` seconds old, or the error; where the cluster takes longer than `wait` seconds and
        there is an older answer, that one. Raises what is no FencepostError.
        """
        question = self._question(key)
        with question.lock:
            if self._clock() < question.until:
                return question.answer
            asking, mine = self._begun(question)
        if mine:
            self._ask(question, asking, ask, fresh)
        try:
            asking.result(wait if question.answer.at is not None else PATIENCE_SECONDS)
        except FutureTimeout:
            if question.answer.at is None:
                return Answer(None, None, _busy())
        return question.answer

    def _begun(self, question: _Question) -> tuple[Future[None], bool]:
        """Whom to wait for, and whether nobody has asked yet."""
        if question.asking is None or question.asking.done():
            question.asking = Future()
            return question.asking, True
        return question.asking, False

    def _ask(self, question: _Question, asking: Future[None], ask: Callable[[], Any], fresh: float) -> None:
        """In a thread of the pool; a question that asks another has one already."""
        if getattr(self._thread, "inside", False):
            self._answer(question, asking, ask, fresh)
        else:
            self._pool.submit(self._answer, question, asking, ask, fresh)

    def _answer(self, question: _Question, asking: Future[None], ask: Callable[[], Any], fresh: float) -> None:
        outer, self._thread.inside = getattr(self._thread, "inside", False), True
        try:
            question.answer = self._asked(question.answer, ask)
            question.until = self._clock() + (ERROR_SECONDS if question.answer.error else fresh)
            asking.set_result(None)
        except BaseException as error:  # noqa: BLE001 (whoever waits hears of it)
            asking.set_exception(error)
        finally:
            self._thread.inside = outer

    def _asked(self, before: Answer[T], ask: Callable[[], T]) -> Answer[T]:
        self.asked += 1
        try:
            return Answer(ask(), datetime.now(UTC))
        except FencepostError as error:
            return Answer(before.value, before.at, error.with_traceback(None))

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

    def _question(self, key: Hashable) -> _Question:
        with self._lock:
            question = self._questions.setdefault(key, _Question())
            self._questions.move_to_end(key)
            while len(self._questions) > MOST:
                self._questions.popitem(last=False)
            if _is_large(key):
                for old in [one for one in self._questions if _is_large(one)][:-MOST_LARGE]:
                    del self._questions[old]
            return question


def _is_large(key: Hashable) -> bool:
    return isinstance(key, tuple) and key[0] in LARGE


def _busy() -> Unreachable:
    return Unreachable("too many questions are under way", "try again in a moment")
