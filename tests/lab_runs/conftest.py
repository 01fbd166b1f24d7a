"""The lab's own stack, for all of its scenarios."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.lab.judge import Verdict, judge
from fencepost.lab.pipelines.scene import How
from fencepost.lab.record import History
from fencepost.lab.scenario import Scenario
from fencepost.lab.scenarios.field import Field
from fencepost.lab.session import trials

Play = Callable[..., Verdict]


@pytest.fixture
def play(field: Field, tmp_path: Path) -> Play:
    """A scenario, or what becomes of it with other values: played and judged."""

    def played(scenario: Scenario, **other: Any) -> Verdict:
        changed = scenario.model_copy(update=other)
        history = History.begin(tmp_path, changed.name, lambda _line: None)
        guarded, control = trials(field, changed, history, How(seed=7))
        return judge(changed.guarantee, guarded, control, changed.must_stop)

    return played
