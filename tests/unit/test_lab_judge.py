"""The judge: only a fault that fired, hit something, left nothing forbidden and did so in the control, is green."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.guarantee import ALLOWED, Anomaly, Guarantee, Ruling
from fencepost.lab.judge import Judgement, Trial, judge, worst

EXACTLY_ONCE = Guarantee.EXACTLY_ONCE
CLEAN = Trial("guarded", witnessed=1, in_flight=50, sent=100, landed=100)
DOUBLED = Trial("weaker", witnessed=1, in_flight=50, sent=100, landed=150, anomalies={Anomaly.DOUBLED_IN_SINK: 50})

counts = st.dictionaries(st.sampled_from(Anomaly), st.integers(0, 3))
trials = st.builds(
    Trial,
    st.just("any"),
    st.integers(0, 2),
    st.integers(0, 2),
    anomalies=counts,
    stopped=st.sampled_from(["", "RecordsGone", "Fenced"]),
    trouble=st.sampled_from(["", "it hung"]),
)


def test_clean_under_a_fault_that_the_control_shows_holds() -> None:
    verdict = judge(EXACTLY_ONCE, CLEAN, DOUBLED)
    assert verdict.judgement is Judgement.HOLDS
    assert "D2 50" in verdict.reason


@pytest.mark.parametrize(
    ("guarded", "control", "expected"),
    [
        (DOUBLED, DOUBLED, Judgement.BROKEN),  # the fence is gone
        (Trial("unseen", 0, 0, anomalies={Anomaly.PHANTOM: 1}), DOUBLED, Judgement.BROKEN),  # whatever was seen
        (Trial("never fired", 0, 50), DOUBLED, Judgement.VACUOUS),
        (Trial("nothing on its way", 1, 0), DOUBLED, Judgement.VACUOUS),
        (CLEAN, CLEAN, Judgement.VACUOUS),  # a control that shows nothing
        (CLEAN, Trial("never fired", 0, 50, anomalies={Anomaly.DOUBLED_IN_SINK: 1}), Judgement.VACUOUS),
        (CLEAN, Trial("broke down", trouble="no answer"), Judgement.INCONCLUSIVE),
        (Trial("broke down", trouble="no answer"), DOUBLED, Judgement.INCONCLUSIVE),
        (Trial("stands still", 1, 50, anomalies={Anomaly.HANG: 1}), DOUBLED, Judgement.INCONCLUSIVE),
    ],
)
def test_what_does_not_hold(guarded: Trial, control: Trial, expected: Judgement) -> None:
    assert judge(EXACTLY_ONCE, guarded, control).judgement is expected


def test_a_control_counts_only_what_the_guarantee_forbids() -> None:
    assert judge(Guarantee.AT_LEAST_ONCE, CLEAN, DOUBLED).judgement is Judgement.VACUOUS
    assert judge(Guarantee.AT_MOST_ONCE, CLEAN, DOUBLED).judgement is Judgement.HOLDS


def test_a_run_that_has_to_stop_and_goes_on_is_broken() -> None:
    stopped = Trial("guarded", 1, 20, stopped="RecordsGone")
    assert judge(EXACTLY_ONCE, stopped, DOUBLED, "RecordsGone").judgement is Judgement.HOLDS
    assert judge(EXACTLY_ONCE, CLEAN, DOUBLED, "RecordsGone").judgement is Judgement.BROKEN
    assert judge(EXACTLY_ONCE, stopped, DOUBLED, "TopicRecreated").judgement is Judgement.BROKEN


def test_a_run_that_stops_where_it_has_to_go_on_shows_nothing() -> None:
    stopped = Trial("guarded", 1, 50, sent=100, stopped="Poison")
    assert judge(EXACTLY_ONCE, stopped, DOUBLED).judgement is Judgement.INCONCLUSIVE
    assert judge(EXACTLY_ONCE, CLEAN, replace(DOUBLED, stopped="Poison")).judgement is Judgement.INCONCLUSIVE
    assert judge(EXACTLY_ONCE, replace(DOUBLED, stopped="Poison"), DOUBLED).judgement is Judgement.BROKEN


@given(st.sampled_from(Guarantee), trials, trials, st.sampled_from(["", "RecordsGone"]))
def test_green_only_with_witness_flight_a_clean_run_and_a_control_that_shows_it(
    guarantee: Guarantee, guarded: Trial, control: Trial, must_stop: str
) -> None:
    def found(trial: Trial, ruling: Ruling) -> bool:
        return any(count and ALLOWED[code].under(guarantee) is ruling for code, count in trial.anomalies.items())

    green = bool(
        not found(guarded, Ruling.FORBIDDEN)
        and not found(guarded, Ruling.UNDECIDED)
        and found(control, Ruling.FORBIDDEN)
        and not (guarded.trouble or control.trouble)
        and min(guarded.witnessed, guarded.in_flight, control.witnessed, control.in_flight) > 0
        and guarded.stopped == must_stop
        and (must_stop or not control.stopped)
    )
    verdict = judge(guarantee, guarded, control, must_stop)
    assert (verdict.judgement is Judgement.HOLDS) == green
    assert verdict.reason
    if found(guarded, Ruling.FORBIDDEN):
        assert verdict.judgement is Judgement.BROKEN


@given(st.lists(st.sampled_from(Judgement)))
def test_the_worst_of_several_decides_the_exit_code(judgements: list[Judgement]) -> None:
    code = worst(judgements).exit_code
    if Judgement.BROKEN in judgements:
        assert code == 1
    else:
        assert code == (0 if judgements and set(judgements) == {Judgement.HOLDS} else 5)
