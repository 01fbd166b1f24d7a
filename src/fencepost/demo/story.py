"""The story from its beginning to its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fencepost.audit.compare import Comparison, Verdict
from fencepost.demo.brokers import lose_a_broker
from fencepost.demo.teller import Teller
from fencepost.guarantee import Guarantee
from fencepost.local import Stack


@dataclass(frozen=True)
class StoryVerdict:
    """What the demo found, by id."""

    brokers: Comparison

    @property
    def holds(self) -> bool:
        return self.brokers.verdict(Guarantee.EXACTLY_ONCE) is Verdict.HOLDS

    def as_json(self) -> dict[str, object]:
        return {
            "verdict": "holds" if self.holds else "broken",
            "produced": self.brokers.expected,
            "landed": self.brokers.landed,
            "lost": self.brokers.lost,
            "duplicated": self.brokers.duplicated,
        }


def tell_story(say: Callable[[str], None]) -> StoryVerdict:
    tell = Teller(say)
    tell.step("a stack of its own: one controller, three brokers, PostgreSQL; no Docker")
    with Stack.temporary(quick_timeouts=True) as stack:
        tell.step(f"up and answering: Kafka at {stack.bootstrap_servers}")
        verdict = StoryVerdict(lose_a_broker(stack, tell))
    tell.step("stack down, nothing left behind")
    return verdict
