"""One scenario of each family of faults, on real brokers and a real database."""

from __future__ import annotations

import pytest

from fencepost.lab.catalogue import scenarios
from fencepost.lab.judge import Judgement
from lab_runs.conftest import Play

QUICK = [name for name, scenario in scenarios().items() if scenario.quick]


@pytest.mark.parametrize("name", QUICK)
def test_it_holds(play: Play, name: str) -> None:
    verdict = play(scenarios()[name])
    assert verdict.judgement is Judgement.HOLDS, verdict.reason
