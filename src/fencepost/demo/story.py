"""The story from its beginning to its verdict."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fencepost.audit.compare import Comparison, Verdict
from fencepost.audit.findings import Audit
from fencepost.demo.brokers import lose_a_broker
from fencepost.demo.control import kill_the_usual_recipe
from fencepost.demo.pipeline import Killed, kill_and_resume, produce
from fencepost.demo.step_log import StepLog
from fencepost.demo.target import declare, sink_called
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
        verdicts = [part.verdict(Guarantee.EXACTLY_ONCE) for part in (self.brokers, self.pipeline.result)]
        return {*verdicts, self.pipeline.audit.verdict} == {Verdict.HOLDS}

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


def tell_story(say: Callable[[str], None], events: int = EVENTS, sink: str | None = None) -> StoryVerdict:
    """On a stack and in a folder of its own; both are gone at the end. `sink`: a format that can be shown, or Usage."""
    tell, shown = StepLog(say), sink_called(sink)
    into = shown.demo.into
    tell.step("a stack of its own: one controller, three brokers, PostgreSQL; no Docker")
    with (
        tempfile.TemporaryDirectory(prefix="fencepost-demo-") as name,
        Stack.temporary(quick_timeouts=True, progress=for_stderr()) as stack,
    ):
        folder = Path(name)
        tell.step(f"up and answering: Kafka at {stack.bootstrap_servers}")
        brokers = lose_a_broker(stack, tell)
        tell.chapter(f"Kafka through Spark into {into}, exactly once, and killed on the way")
        produce(stack, events, tell)
        ours = declare(shown, stack, folder, "demo", "orders_shown", events // 20)
        usual = declare(shown, stack, folder, "naive", "orders_naive", events // 4)  # while every broker is there
        with for_stderr().bar(f"delivered into {into}", events) as show:
            pipeline = kill_and_resume(ours, stack, events, tell, show)
        result = pipeline.result
        tell.step(f"every id compared: {result.landed:,} rows, lost {result.lost}, doubled {result.duplicated}")
        tell.step(f"fencepost audit: {_audited(pipeline.audit)}")
        control = kill_the_usual_recipe(shown, usual, events, tell)
        verdict = StoryVerdict(brokers, pipeline, control)
    tell.chapter(
        f"Fencepost: {'holds' if verdict.holds else 'BROKEN'}: lost {result.lost}, doubled {result.duplicated} "
        f"after {pipeline.kills} kills. The usual recipe: doubled {control.duplicated:,} after one."
    )
    return verdict


def _audited(audit: Audit) -> str:
    hop = audit.hops[-1]
    found = ", ".join(f"{code} {count:,}" for code, count in audit.totals.items()) or "nothing amiss"
    return f"{audit.verdict}: {hop.facts['read']:,} records read, {hop.landed:,} rows landed, {found}"
