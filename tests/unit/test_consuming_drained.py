"""When a member that ends is done though others hold a part of the topic."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.engines.listener import NotDrained
from fencepost.engines.python import drained
from fencepost.engines.python.drained import GRACE_SECONDS, LOOK_SECONDS, EndOffsets, OtherMembers
from fencepost.errors import Unreachable
from fencepost.model import TopicPartition

ONE, TWO, THREE = (TopicPartition("orders", number) for number in range(3))
SESSION = 6.0


class Story:
    """Positions and holders as they are told, look by look; time passes between two looks only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, holders: Mapping[TopicPartition, str]) -> None:
        self.stands: dict[TopicPartition, int] | None = {ONE: 10, TWO: 4, THREE: 10}
        self.holders = dict(holders)
        self.now = 100.0
        self.told: list[str] = []
        monkeypatch.setattr(drained, "monotonic", lambda: self.now)
        ends = dict.fromkeys((ONE, TWO, THREE), 10)
        topic: Any = SimpleNamespace(
            require_same=lambda: [*ends],
            bounds=lambda _: (dict.fromkeys(ends, 0), ends),
            stable_ends=lambda _: ends,
        )
        goal = EndOffsets(topic, self._stands, lambda: True)
        self.others = OtherMembers(goal, lambda: self.holders, SESSION, self.told.append)

    def _stands(self) -> Mapping[TopicPartition, int]:
        if self.stands is None:
            raise Unreachable("nobody answers")
        return self.stands

    def decided(self, *owned: TopicPartition, after: float = LOOK_SECONDS) -> bool:
        self.now += after
        return self.others.decided(owned)


def test_whoever_has_everything_looks_at_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, {})
    story.stands = None
    assert story.decided(ONE, TWO, THREE)
    assert story.others.left is None


def test_what_is_done_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, {TWO: "two", THREE: "three"})
    assert story.decided(ONE, TWO)
    assert (story.others.left, story.told) == (None, [])


def test_what_nobody_carries_is_waited_for_as_long_as_a_session_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, {TWO: "two"})
    assert not story.decided(ONE)
    assert not story.decided(ONE, after=SESSION)
    assert story.decided(ONE, after=GRACE_SECONDS + 1)
    assert story.others.left == NotDrained({TWO: 6}, False, {TWO: "two"})
    (said,) = story.told
    assert said == (
        "6 offsets left in orders/1 (assigned to two): waiting up to 11 s until they are processed, or assigned to "
        "this member"
    )


def test_what_was_given_to_us_meanwhile_is_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, {TWO: "two"})
    assert not story.decided(ONE)
    assert story.decided(ONE, TWO, THREE, after=SESSION)
    assert story.others.left is None


def test_a_member_that_moves_is_left_with_its_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, {TWO: "two"})
    assert not story.decided(ONE)
    story.stands = {ONE: 10, TWO: 5, THREE: 10}
    assert story.decided(ONE)
    assert story.others.left == NotDrained({TWO: 5}, True, {TWO: "two"})


def test_one_that_moves_says_nothing_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, {TWO: "two", THREE: "three"})
    story.stands = {ONE: 10, TWO: 4, THREE: 4}
    assert not story.decided(ONE)
    story.stands = {ONE: 10, TWO: 5, THREE: 4}
    assert not story.decided(ONE)
    story.holders[THREE] = "two"  # one member, which moved
    assert story.decided(ONE)


def test_a_partition_that_nobody_holds_is_in_no_hands(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, {})
    assert not story.decided(ONE)
    story.stands = {ONE: 10, TWO: 5, THREE: 10}  # by whom?
    assert not story.decided(ONE)
    assert "assigned to nobody" in str(story.others.left)


def test_looks_are_rare_and_trouble_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, {TWO: "two"})
    assert not story.decided(ONE)
    story.stands = None
    assert not story.decided(ONE)
    story.stands = {ONE: 10, TWO: 10, THREE: 10}
    assert not story.decided(ONE, after=LOOK_SECONDS / 2)
    assert story.decided(ONE)
    assert story.others.left is None
