"""Comparing: the verdict is about ours, and nothing counts that was not hit."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.errors import Usage
from fencepost.guarantee import Anomaly
from fencepost.lab.comparing import beside, concluded
from fencepost.lab.judge import Judgement, Trial
from fencepost.lab.scenario import Engine
from support.commands import here

OURS = Trial("fencepost", witnessed=1, in_flight=50)
OTHER = Trial("a loop", witnessed=1, in_flight=50, anomalies={Anomaly.DOUBLED_IN_SINK: 50})


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([OURS, OTHER], Judgement.HOLDS),
        ([OURS, OURS], Judgement.HOLDS),  # it may be that the others are good
        ([OTHER, OTHER], Judgement.BROKEN),
        ([OURS, Trial("a loop", trouble="no answer")], Judgement.INCONCLUSIVE),
        ([OURS, Trial("a loop", witnessed=0, in_flight=50)], Judgement.VACUOUS),
        ([Trial("fencepost", witnessed=1, in_flight=0), OTHER], Judgement.VACUOUS),
        ([Trial("fencepost", witnessed=1, in_flight=50, stopped="Poison"), OTHER], Judgement.INCONCLUSIVE),
    ],
)
def test_the_verdict_is_about_ours(trials: list[Trial], expected: Judgement) -> None:
    assert concluded(trials)[0] is expected


def test_what_is_compared_is_data() -> None:
    assert len(beside(Engine.PYTHON, "postgres").others) == 3
    with pytest.raises(Usage, match="nothing is compared there"):
        beside(Engine.PYTHON, "delta")


def test_where_nothing_is_compared_nothing_starts(tmp_path: Path) -> None:
    ended = here("lab", "compare", "--sink", "delta", "--home", tmp_path / "lab")
    assert ended.code == 2
    assert ended.complaint
    assert not (tmp_path / "lab").exists()
