"""What a consumer does when nobody answers, with members whose troubles are written down beforehand."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fencepost.engines import backoff
from fencepost.engines.python.consumer import Consumption
from fencepost.engines.python.member import Consumed, Member
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.errors import Fenced, FencepostError, Unknown, Unreachable
from fencepost.guarantee import Guarantee


class StoryMember:
    def __init__(self, trouble: FencepostError | None, batches: int = 0) -> None:
        self.done = Consumed(events=batches, batches=batches)
        self.trouble = trouble

    def run(self, _once: bool) -> Consumed:
        if self.trouble is not None:
            raise self.trouble
        return self.done


def consumption(monkeypatch: pytest.MonkeyPatch, *members: StoryMember | FencepostError) -> Consumption:
    made = iter(members)

    def member(_self: Any) -> Member:
        found = next(made)
        if isinstance(found, FencepostError):
            raise found
        return cast(Member, found)

    monkeypatch.setattr(Consumption, "_member", member)
    monkeypatch.setattr(backoff, "FIRST_WAIT", 0.001)
    settings = ConsumerSettings({}, "orders", "mail", Guarantee.AT_LEAST_ONCE)
    return Consumption(settings, lambda _events: None)


def test_it_goes_on_after_trouble_and_counts_what_every_member_did(monkeypatch: pytest.MonkeyPatch) -> None:
    down = Unreachable("down")
    troubled = StoryMember(Unknown("no answer"), 2)
    work = consumption(monkeypatch, troubled, down, StoryMember(down), down, StoryMember(None, 3))
    assert work.run().events == 5


def test_once_gives_up_when_nothing_answers_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "ONCE_GIVES_UP_AFTER", 0.0)
    down = Unreachable("down")
    with pytest.raises(Unreachable, match="down"):
        consumption(monkeypatch, StoryMember(down), down, down, StoryMember(None)).run(once=True)


def test_a_batch_that_landed_renews_its_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "ONCE_GIVES_UP_AFTER", 0.0)
    troubled = [StoryMember(Unreachable("down"), 1) for _ in range(5)]
    assert consumption(monkeypatch, *troubled, StoryMember(None)).run(once=True).events == 5


def test_what_is_wrong_from_the_start_and_whoever_was_replaced_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Unreachable):
        consumption(monkeypatch, Unreachable("down")).run()
    with pytest.raises(Fenced):
        consumption(monkeypatch, StoryMember(Fenced("replaced"))).run()


def test_a_stop_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    work = consumption(monkeypatch, StoryMember(Unreachable("down"), 4))
    work.waits = lambda _trouble, _seconds: work.stop.set()
    assert work.run().events == 4
