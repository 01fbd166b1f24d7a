"""The story from its beginning to its verdict."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fencepost.audit.compare import Comparison, Verdict
from fencepost.demo.brokers import lose_a_broker
from fencepost.demo.control import kill_the_usual_recipe
from fencepost.demo.pipeline import Killed, kill_and_resume, produce
from fencepost.demo.teller import Teller
from fencepost.guarantee import Guarantee
from fencepost.local import Stack
from fencepost.machine.progress import for_stderr

EVENTS = 200_000


@dataclass(frozen=True)
class StoryVerdict:
    """What the demo found, by id."""

    brokers: Comparison
    pipeline: Killed
    control: Comparison

    @property
    def holds(self) -> bool:
        parts = (self.brokers, self.pipeline.result)
        return all(part.verdict(Guarantee.EXACTLY_ONCE) is Verdict.HOLDS for part in parts)

    def as_json(self) -> dict[str, object]:
        result = self.pipeline.result
        return {
            "verdict": "holds" if self.holds else "broken",
            "produced": result.expected,
            "landed": result.landed,
            "lost": result.lost,
            "duplicated": result.duplicated,
            "kills": self.pipeline.kills,
            "control": {"lost": self.control.lost, "duplicated": self.control.duplicated},
        }


def tell_story(say: Callable[[str], None], events: int = EVENTS) -> StoryVerdict:
    """On a stack and in a folder of its own; both are gone at the end."""
    tell = Teller(say)
    tell.step("a stack of its own: one controller, three brokers, PostgreSQL; no Docker")
    with (
        tempfile.TemporaryDirectory(prefix="fencepost-demo-") as name,
        Stack.temporary(quick_timeouts=True, progress=for_stderr()) as stack,
    ):
        folder = Path(name)
        tell.step(f"up and answering: Kafka at {stack.bootstrap_servers}")
        brokers = lose_a_broker(stack, tell)
        tell.chapter("Kafka through Spark into PostgreSQL, exactly once, and killed on the way")
        produce(stack, events, tell)
        with for_stderr().bar("carried into PostgreSQL", events) as show:
            pipeline = kill_and_resume(stack, events, folder, tell, show)
        result = pipeline.result
        tell.step(f"every id compared: {result.landed:,} rows, lost {result.lost}, doubled {result.duplicated}")
        control = kill_the_usual_recipe(stack, events, folder, tell)
        verdict = StoryVerdict(brokers, pipeline, control)
    tell.chapter(
        f"Fencepost: {'holds' if verdict.holds else 'BROKEN'}: lost {result.lost}, doubled {result.duplicated} "
        f"after {pipeline.kills} kills. The usual recipe: doubled {control.duplicated:,} after one."
    )
    return verdict
