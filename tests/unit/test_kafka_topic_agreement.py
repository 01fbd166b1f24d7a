"""Brokers that have not all heard of a topic yet: whoever says that there is none may just be late."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from fencepost.errors import Unreachable
from fencepost.kafka import topics
from fencepost.kafka.client import Cluster
from fencepost.kafka.errors import Missing
from fencepost.kafka.topics import topic_id_and_partitions


@dataclass
class Info:
    id: int


@dataclass
class Layout:
    partitions: list[Info]
    topic_id: str = "id-1"


@dataclass
class Late:
    """A cluster of which one broker answers, and learns of the topic at its n-th question; the others know it."""

    hears_at: int
    knows: Mapping[int, Mapping[str, int]]
    count: int = 1  # of the topic's partitions
    before: int = 0  # how many of them it knows until then
    servers: str = "h:1"
    questions: list[object] = field(default_factory=list)
    admin: Any = None

    def ask_each(self, _question: object, subject: str) -> dict[str, Layout]:
        self.questions.append(subject)
        known = self.count if len(self.questions) >= self.hears_at else self.before
        return {"orders": Layout([Info(number) for number in range(known)])} if known else {}

    def views(self) -> AbstractContextManager[Late]:
        return nullcontext(self)

    def partitions(self, topic: str) -> list[int]:
        return [known.get(topic, 0) for known in self.knows.values()]

    def topic_names(self) -> list[str]:
        return ["orders", "orders-clean"]  # this question another broker answered


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "DOUBT_SECONDS", 0.001)


def _ask(cluster: Late, seen: int = 1) -> list[int]:
    return topic_id_and_partitions(cast(Cluster, cluster), "orders", seen)[1]


def test_a_broker_that_is_late_is_asked_again() -> None:
    cluster = Late(3, {1: {"orders": 1}, 2: {}})
    assert _ask(cluster) == [0]
    assert len(cluster.questions) == 3


def test_a_topic_that_just_nobody_knew_is_looked_for_twice() -> None:
    assert _ask(Late(2, {1: {}, 2: {}})) == [0]


def test_partitions_that_one_broker_does_not_know_yet_are_waited_for() -> None:
    assert _ask(Late(3, {1: {"orders": 3}, 2: {"orders": 1}}, count=3, before=1), seen=3) == [0, 1, 2]


def test_partitions_that_nobody_knows_any_more_are_not() -> None:
    assert _ask(Late(99, {1: {"orders": 1}}, before=1), seen=3) == [0]


def test_a_topic_that_no_broker_knows_is_missing_and_never_its_own_nearest_name() -> None:
    with pytest.raises(Missing) as missing:
        _ask(Late(99, {1: {"orders-clean": 1}, 2: {}}))
    assert missing.value.remedy == "did you mean orders-clean?"


def test_brokers_that_do_not_answer_at_all_have_not_said_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _ask(Late(5, {})) == [0]
    monkeypatch.setattr(topics, "AGREE_SECONDS", 0.01)
    with pytest.raises(Unreachable, match="no broker says whether there is a topic orders"):
        _ask(Late(10**9, {}))


def test_brokers_that_never_agree_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "AGREE_SECONDS", 0.01)
    with pytest.raises(Unreachable, match="do not agree on topic orders"):
        _ask(Late(10**9, {1: {"orders": 1}, 2: {}}))
