"""What a consumer does when nobody answers, with members whose troubles are written down beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4

import pytest

from fencepost.engines import backoff
from fencepost.engines.listener import Waiting
from fencepost.engines.python.consumed import Consumed
from fencepost.engines.python.consumer import Consumption
from fencepost.engines.python.member import Member
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.errors import Fenced, FencepostError, Unknown, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Span, Tenure, TopicPartition
from fencepost.run.consume import run_handler

BATCH: Batch[Any] = Batch({TopicPartition("orders", 0): Span(0, 1)}, [], Tenure("mail", uuid4(), 0, {}))


class StoryMember:
    def __init__(self, trouble: FencepostError | None, batches: int = 0) -> None:
        self.done = Consumed(events=batches, batches=batches)
        self.trouble = trouble
        self.left = False
        self.seen: Callable[[Batch[Any], int], None] = lambda _batch, _events: None

    def leave(self) -> None:
        self.left = True

    def run(self, _once: bool) -> Consumed:
        for _ in range(self.done.batches):
            self.seen(BATCH, 1)
        if self.trouble is not None:
            raise self.trouble
        return self.done


def consumption(monkeypatch: pytest.MonkeyPatch, *members: StoryMember | FencepostError) -> Consumption:
    made = iter(members)

    def member(work: Consumption) -> Member:
        found = next(made)
        if isinstance(found, FencepostError):
            raise found
        found.seen = work._tell
        return cast(Member, found)

    monkeypatch.setattr(Consumption, "_member", member)
    monkeypatch.setattr(backoff, "FIRST_WAIT", 0.001)
    settings = ConsumerSettings({}, "orders", "mail", Guarantee.AT_LEAST_ONCE)
    return Consumption(settings, lambda _events: None)


def test_it_goes_on_after_trouble_and_counts_what_every_member_did(monkeypatch: pytest.MonkeyPatch) -> None:
    down = Unreachable("down")
    troubled = StoryMember(Unknown("no answer"), 2)
    work = consumption(monkeypatch, troubled, down, StoryMember(down), down, StoryMember(None, 3))
    summary = run_handler(work)
    assert (summary.rows, summary.batches, summary.restarts) == (5, 5, 4)


def test_once_gives_up_when_nothing_answers_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "ONCE_GIVES_UP_AFTER", 0.0)
    down = Unreachable("down")
    with pytest.raises(Unreachable, match="down"):
        run_handler(consumption(monkeypatch, StoryMember(down), down, down, StoryMember(None)), once=True)


def test_a_batch_that_landed_renews_its_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "ONCE_GIVES_UP_AFTER", 0.0)
    troubled = [StoryMember(Unreachable("down"), 1) for _ in range(5)]
    assert run_handler(consumption(monkeypatch, *troubled, StoryMember(None)), once=True).rows == 5


def test_what_is_wrong_from_the_start_and_whoever_was_replaced_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Unreachable):
        run_handler(consumption(monkeypatch, Unreachable("down")))
    with pytest.raises(Fenced):
        run_handler(consumption(monkeypatch, StoryMember(Fenced("replaced"))))


def test_a_stop_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    work = consumption(monkeypatch, StoryMember(Unreachable("down"), 4))
    assert run_handler(work, listen=lambda news: work.stop.set() if isinstance(news, Waiting) else None).rows == 4


def test_one_that_is_stopped_before_it_starts_opens_a_member_and_closes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong is said all the same."""
    member = StoryMember(None, 3)
    work = consumption(monkeypatch, member)
    work.stop.set()
    assert run_handler(work).rows == 0
    assert member.left
