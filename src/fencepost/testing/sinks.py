"""What every sink must do, and what the three orders make of it."""

from __future__ import annotations

import pytest

from fencepost.delivery import deliver
from fencepost.errors import InputCut
from fencepost.guarantee import Guarantee
from fencepost.model import Landed, Step
from fencepost.sinks.memory.ledger import MemoryLedger
from fencepost.testing.batches import ORDERS, PIPELINE, Crash, at, batch, crash, owner
from fencepost.testing.subjects import SinkSubject

TWO_STEPS = [Guarantee.AT_MOST_ONCE, Guarantee.AT_LEAST_ONCE]


class SinkSuite:
    """Over whatever the fixture `subject` is; the positions are in memory."""

    @pytest.mark.parametrize("guarantee", TWO_STEPS)
    def test_rows_land_in_order_and_the_same_batch_again_changes_nothing(
        self, subject: SinkSubject, guarantee: Guarantee
    ) -> None:
        ledger = MemoryLedger()
        tenure = owner(ledger)
        landed = deliver(guarantee, batch(tenure, 0, 3, subject.rows([0, 1, 2])), subject.open(), ledger)
        again = deliver(guarantee, batch(tenure, 0, 3, subject.rows([0, 1, 2])), subject.open(), ledger)
        assert landed == Landed(rows=3)
        assert again == Landed(rows=0, already=True)
        assert subject.landed() == [0, 1, 2]

    def test_at_least_once_a_span_without_rows_moves_the_position(self, subject: SinkSubject) -> None:
        ledger = MemoryLedger()
        tenure = owner(ledger)
        deliver(Guarantee.AT_LEAST_ONCE, batch(tenure, 0, 3, subject.rows([])), subject.open(), ledger)
        assert subject.landed() == []
        assert ledger.positions(PIPELINE) == {ORDERS: 3}

    def test_an_input_that_is_cut_off_does_not_move_the_position(self, subject: SinkSubject) -> None:
        ledger = MemoryLedger()
        tenure = owner(ledger)
        with pytest.raises(InputCut):
            deliver(Guarantee.AT_LEAST_ONCE, batch(tenure, 0, 3, subject.cut_rows([0])), subject.open(), ledger)
        assert ledger.positions(PIPELINE) == {ORDERS: 0}

    def test_write_then_advance_repeats_after_a_crash_between_the_two(self, subject: SinkSubject) -> None:
        ledger = MemoryLedger()
        tenure = owner(ledger)
        sink = subject.open()
        with pytest.raises(Crash):
            deliver(
                Guarantee.AT_LEAST_ONCE,
                batch(tenure, 0, 2, subject.rows([0, 1])),
                sink,
                ledger,
                at(Step.WRITTEN, crash),
            )
        deliver(Guarantee.AT_LEAST_ONCE, batch(tenure, 0, 2, subject.rows([0, 1])), subject.open(), ledger)
        assert sorted(subject.landed()) == ([0, 0, 1, 1] if subject.doubles else [0, 1])

    def test_advance_then_write_loses_after_a_crash_between_the_two(self, subject: SinkSubject) -> None:
        ledger = MemoryLedger()
        tenure = owner(ledger)
        sink = subject.open()
        with pytest.raises(Crash):
            deliver(
                Guarantee.AT_MOST_ONCE,
                batch(tenure, 0, 2, subject.rows([0, 1])),
                sink,
                ledger,
                at(Step.ADVANCED, crash),
            )
        deliver(Guarantee.AT_MOST_ONCE, batch(tenure, 0, 2, subject.rows([0, 1])), subject.open(), ledger)
        assert subject.landed() == []
