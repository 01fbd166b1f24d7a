"""A producer's story as two trials: what is not enough is the control, what is enough is guarded."""

from __future__ import annotations

from dataclasses import replace

from fencepost.lab.judge import Trial
from fencepost.lab.record import History
from fencepost.lab.scenario import Scenario
from fencepost.lab.scenarios.field import Field
from fencepost.lab.scenarios.shown import Shown
from fencepost.lab.scenarios.stories import STORIES
from fencepost.machine.counting import count


def told(field: Field, scenario: Scenario, history: History) -> tuple[Trial, Trial]:
    """Guarded and control."""
    story = STORIES[scenario.story or ""]
    history.tell(story.tells, kind="fault", lane="brokers")
    weak, strong = story.tell(field)
    for run, shown in (("control", weak), ("guarded", strong)):
        history.tell(str(shown), kind="outcome", lane="producer", run=run, sent=shown.sent, landed=shown.in_log)
    return replace(_trial(strong, story.tells), trouble=_untold(strong)), _trial(weak, story.tells)


def _untold(strong: Shown) -> str:
    """What its sender was told nothing of may be there or not: it cannot be lost."""
    if strong.acked >= strong.in_flight:
        return ""
    return f"{strong.acked:,} of {count(strong.in_flight, 'event')} on their way were acknowledged"


def _trial(shown: Shown, what: str) -> Trial:
    return Trial(
        shown.setting,
        shown.witnessed,
        shown.in_flight,
        shown.sent,
        shown.in_log,
        {code: count for code, count in shown.anomalies.items() if count},
        witness="; ".join((what, *shown.notes)),
    )
