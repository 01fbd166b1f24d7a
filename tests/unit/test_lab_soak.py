"""The soak's schedule is the seed's, and its verdict what was counted."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.audit.compare import compare_sink
from fencepost.errors import Usage
from fencepost.lab.judge import Judgement
from fencepost.lab.scenario import Engine
from fencepost.lab.soak.schedule import BROKERS, Blow, rounds
from fencepost.lab.soak.soak import Asked
from fencepost.lab.soak.tally import Tally, judged

seeds = st.integers(0, 2**31)


@given(seeds)
def test_a_seed_is_a_schedule(seed: int) -> None:
    assert list(islice(rounds(seed), 20)) == list(islice(rounds(seed), 20))


@given(seeds)
def test_two_different_things_at_a_time_and_never_two_brokers(seed: int) -> None:
    for each in islice(rounds(seed), 50):
        first, second = (strike.target for strike in each.strikes)
        assert first != second
        assert not {first, second} <= set(BROKERS)
        assert not first.startswith("producer") or not second.startswith("producer")
        for strike in each.strikes:
            assert strike.blow is not Blow.CUT or strike.target in (*BROKERS, "postgres")


def test_every_blow_and_every_target_comes_up() -> None:
    strikes = {(strike.blow, strike.target) for each in islice(rounds(7), 500) for strike in each.strikes}
    assert {blow for blow, _ in strikes} == set(Blow)
    assert {target for _, target in strikes} == {"driver", "producer-0", "producer-1", *BROKERS, "postgres"}


def test_only_nothing_lost_and_nothing_doubled_under_strikes_that_hit_holds() -> None:
    whole = compare_sink(range(10), range(10))
    assert judged(whole, 3, "")[0] is Judgement.HOLDS
    assert judged(whole, 0, "")[0] is Judgement.VACUOUS
    assert judged(whole, 3, "it hung")[0] is Judgement.INCONCLUSIVE
    for landed in (range(9), [*range(10), 3], range(11)):
        assert judged(compare_sink(range(10), landed), 3, "")[0] is Judgement.BROKEN


def test_recoveries_are_told_as_percentiles() -> None:
    assert Tally().percentile(0.5) is None
    assert Tally(recoveries=[2.0]).percentile(0.99) == 2.0
    assert Tally(recoveries=[1.0, 2.0, 3.0]).percentile(0.5) == 2.0


@pytest.mark.parametrize(("minutes", "rate"), [(float("inf"), 1), (1e9, 400), (60, 10**9)])
def test_more_events_than_can_be_compared_are_refused(minutes: float, rate: int) -> None:
    with pytest.raises(Usage, match="fewer minutes"):
        Asked.of(minutes, 7, None, Engine.PYTHON, rate)


def test_a_day_is_not_too_long() -> None:
    assert Asked.of(24 * 60, 7, None, Engine.SPARK, 100).minutes == 24 * 60
