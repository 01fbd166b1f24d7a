"""Every sink, held to what ships as `fencepost.testing`; and what `deliver` makes of one that fails."""

from __future__ import annotations

import pytest

from contract.subjects import SINKS, params
from fencepost.delivery import deliver
from fencepost.errors import Fenced, FencepostError, InputCut, Refused, Unknown, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Step
from fencepost.sinks.memory.ledger import MemoryLedger
from fencepost.testing import SinkSubject, SinkSuite
from fencepost.testing.batches import ORDERS, PIPELINE, at, batch, owner


class TestSinks(SinkSuite):
    @pytest.fixture(params=params(SINKS))
    def subject(self, request: pytest.FixtureRequest) -> SinkSubject:
        made: SinkSubject = SINKS[request.param](request)
        return made


class Raising:
    """A sink that writes nothing, and says why."""

    def __init__(self, trouble: FencepostError) -> None:
        self.trouble = trouble

    def write(self, _batch: Batch[object]) -> Landed:
        raise self.trouble


@pytest.mark.parametrize("kind", [Refused, Unreachable, InputCut])
def test_at_most_once_the_position_is_put_back_where_certainly_nothing_was_written(kind: type[FencepostError]) -> None:
    ledger = MemoryLedger()
    tenure = owner(ledger)
    with pytest.raises(kind):
        deliver(Guarantee.AT_MOST_ONCE, batch(tenure, 0, 3), Raising(kind("no")), ledger)
    assert ledger.positions(PIPELINE) == {ORDERS: 0}


def test_at_most_once_a_write_without_an_answer_is_not_repeated_and_the_loss_is_told() -> None:
    ledger = MemoryLedger()
    tenure = owner(ledger)
    with pytest.raises(Unknown, match="may be lost"):
        deliver(Guarantee.AT_MOST_ONCE, batch(tenure, 0, 3), Raising(Unknown("silence")), ledger)
    assert ledger.positions(PIPELINE) == {ORDERS: 3}


class Silent(MemoryLedger):
    """Nobody answers when the position is to be put back."""

    def retreat(self, _batch: Batch[object]) -> None:
        raise Unknown("silence")


def test_at_most_once_a_retreat_without_an_answer_is_unknown() -> None:
    ledger = Silent()
    tenure = owner(ledger)
    with pytest.raises(Unknown, match=r"no; the position moved first: shop: orders/0 \[0, 3\) may be lost"):
        deliver(Guarantee.AT_MOST_ONCE, batch(tenure, 0, 3), Raising(Refused("no")), ledger)


def test_at_most_once_a_zombie_whose_write_is_refused_puts_nothing_back() -> None:
    ledger = MemoryLedger()
    tenure = owner(ledger)
    with pytest.raises(Fenced):
        deliver(
            Guarantee.AT_MOST_ONCE,
            batch(tenure, 0, 3),
            Raising(Refused("no")),
            ledger,
            at(Step.ADVANCED, lambda: owner(ledger)),
        )
    assert ledger.positions(PIPELINE) == {ORDERS: 3}


def test_a_refusal_is_looked_at_again() -> None:
    """Another attempt at the same batch got through: its rows are what the sink does not take twice."""
    ledger, guarantee = MemoryLedger(), Guarantee.AT_LEAST_ONCE
    tenure = owner(ledger)
    moved = at(Step.STARTED, lambda: ledger.advance(batch(tenure, 0, 3)))
    landed = deliver(guarantee, batch(tenure, 0, 3), Raising(Refused("there")), ledger, moved)
    assert landed == Landed(rows=0, already=True)
    replaced = at(Step.STARTED, lambda: owner(ledger))
    with pytest.raises(Fenced):
        deliver(guarantee, batch(tenure, 3, 5), Raising(Refused("there")), ledger, replaced)
    with pytest.raises(Refused):
        deliver(guarantee, batch(owner(ledger), 3, 5), Raising(Refused("no")), ledger)
