"""A story as two trials: what nobody was told of proves nothing."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.guarantee import Anomaly
from fencepost.lab import telling
from fencepost.lab.catalogue import scenarios
from fencepost.lab.judge import Judgement, judge
from fencepost.lab.record import History
from fencepost.lab.scenarios.shown import Shown, Story

SCENARIO = scenarios()["leader-dies-before-replication"]
WEAK = Shown("acks=leader", 102, 2, 100, 0, anomalies={Anomaly.LOST_BEFORE_LOG: 100}, witnessed=2, in_flight=100)


@pytest.mark.parametrize(("acked", "expected"), [(102, Judgement.HOLDS), (2, Judgement.INCONCLUSIVE)])
def test_events_that_nobody_acknowledged_could_not_be_lost(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, acked: int, expected: Judgement
) -> None:
    strong = Shown("acks=quorum", acked, 102, 0, 0, witnessed=2, in_flight=100)
    story = Story("leader-dies", "it dies", lambda _field: (WEAK, strong))
    monkeypatch.setattr(telling, "STORIES", {SCENARIO.story: story})
    history = History.begin(tmp_path, SCENARIO.name, lambda _line: None)
    guarded, control = telling.told(None, SCENARIO, history)  # type: ignore[arg-type]
    assert judge(SCENARIO.guarantee, guarded, control).judgement is expected
