"""Streams that keep state: rows are those of the model, whatever dies or stands still, and whenever."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.local import Stack
from spark.streams import FirstsFlow, PairsFlow, StateFlow, UpdatedFlow, orders, spread


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> StateFlow:
    return StateFlow(stack, tmp_path)


def test_windows_are_those_of_the_model_over_several_runs(flow: StateFlow) -> None:
    flow.send(spread(range(100)))
    run = flow.run()
    assert flow.assert_modelled() == run.rows > 10
    assert run.batches()[-1].records == 0  # without records, because the watermark moved
    first = flow.last()
    flow.send(spread(range(100, 200)))
    assert flow.run().rows
    assert flow.last()[0] > first[0]
    assert flow.assert_modelled() > run.rows


@pytest.mark.proof
def test_a_window_that_grows_has_one_row_and_is_updated(stack: Stack, tmp_path: Path) -> None:
    flow = UpdatedFlow(stack, tmp_path)
    flow.send(spread(range(100)))
    flow.run()
    open_ = flow.assert_modelled()
    flow.send(spread(range(100, 200)))
    flow.run()
    assert flow.assert_modelled() > open_ > 15


@pytest.mark.proof
def test_the_first_of_a_key_lands_and_the_next_one_when_it_is_forgotten(stack: Stack, tmp_path: Path) -> None:
    flow = FirstsFlow(stack, tmp_path)
    for begin in range(0, 300, 100):
        flow.send(spread(range(begin, begin + 100), users=20))
        flow.run()
        assert flow.assert_modelled() > 20
    assert len({user for _, user in flow.rows()}) == 20


@pytest.mark.proof
def test_orders_are_joined_with_payments_and_those_without_come_when_their_time_is_over(
    stack: Stack, tmp_path: Path
) -> None:
    flow = PairsFlow(stack, tmp_path)
    for begin in range(0, 120, 60):
        flow.send(orders(range(begin, begin + 60)))
        flow.run()
        assert flow.assert_modelled() > 40
    assert sum(payment is None for _, payment in flow.rows()) > 10
