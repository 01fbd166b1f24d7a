"""One question for all who ask it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from fencepost.errors import Unreachable
from fencepost.web.answers import ERROR_SECONDS, MOST, Answers


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def fails() -> int:
    raise Unreachable("nobody answers")


def test_an_answer_stays_for_as_long_as_it_is_fresh() -> None:
    clock, given = Clock(), iter(range(9))
    answers = Answers(clock)
    assert answers.get("a", lambda: next(given), 2).value == 0
    clock.now = 1.9
    assert answers.get("a", lambda: next(given), 2).value == 0
    clock.now = 2.1
    assert answers.get("a", lambda: next(given), 2).value == 1
    assert answers.asked == 2


def test_who_asks_meanwhile_waits_for_the_same_answer() -> None:
    answers, begun, may_end = Answers(), Event(), Event()

    def slow() -> str:
        begun.set()
        assert may_end.wait(20)
        return "once"

    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(answers.get, "a", slow, 60.0) for _ in range(20)]
        assert begun.wait(20)
        may_end.set()
        assert {one.result().value for one in asked} == {"once"}
    assert answers.asked == 1


def test_an_error_keeps_the_last_good_answer_beside_it() -> None:
    clock = Clock()
    answers = Answers(clock)
    answers.get("a", lambda: 7, 2)
    clock.now = 3
    trouble = answers.get("a", fails, 2)
    assert trouble.value == 7
    assert trouble.at is not None
    with pytest.raises(Unreachable):
        trouble.require()
    clock.now = 3 + ERROR_SECONDS - 0.1
    assert answers.get("a", lambda: 8, 2).error is not None
    clock.now = 3 + ERROR_SECONDS + 0.1
    assert answers.get("a", lambda: 8, 2).require() == 8


def test_questions_may_ask_others_and_are_not_remembered_without_end() -> None:
    answers = Answers()
    assert answers.get("a", lambda: answers.get("b", lambda: 1).require() + 1).require() == 2
    for number in range(2 * MOST):
        answers.get(number, lambda: 0)
    assert len(answers._questions) <= MOST
