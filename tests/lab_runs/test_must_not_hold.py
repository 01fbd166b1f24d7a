"""The judge on real runs that must not be green: no fence, no fault, a control that shows nothing."""

from __future__ import annotations

import pytest

from fencepost.guarantee import Guarantee
from fencepost.lab.catalogue import scenarios
from fencepost.lab.judge import Judgement
from fencepost.lab.scenario import Control, Inject
from lab_runs.conftest import Play

DIES = scenarios()["dies-after-the-write-postgres-python-eo"]


def test_with_its_fence_removed_it_is_broken(play: Play) -> None:
    verdict = play(DIES, instead=Control(guarantee=Guarantee.AT_LEAST_ONCE))
    assert verdict.judgement is Judgement.BROKEN
    assert "D2" in verdict.reason


@pytest.mark.proof
def test_a_fault_that_never_fires_proves_nothing(play: Play) -> None:
    verdict = play(DIES, inject=Inject.model_validate({"do": "kill", "step": "written", "batch": 1_000}))
    assert verdict.judgement is Judgement.VACUOUS
    assert "not seen to fire" in verdict.reason


@pytest.mark.proof
def test_a_control_that_shows_nothing_proves_nothing(play: Play) -> None:
    verdict = play(DIES, control=Control(guarantee=Guarantee.EXACTLY_ONCE))
    assert verdict.judgement is Judgement.VACUOUS
    assert "control shows nothing" in verdict.reason
