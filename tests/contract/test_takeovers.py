"""Two runs that take over at the same moment, twenty times, for every store: one of them ends up the owner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from contract.delta_subject import InDelta
from contract.subjects import LEDGERS
from fencepost.errors import Fenced
from fencepost.model import Tenure
from fencepost.testing.batches import ORDERS, PIPELINE, batch, owner

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]
TIMES = 20
PATIENCE = 90.0
OTHERS = [name for name in LEDGERS if name not in ("memory", "memory-store", "lake-store", "delta-store")]


@pytest.fixture(params=["delta", *OTHERS])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "delta":
        return InDelta(tmp_path)
    return LEDGERS[request.param](request)


@contextmanager
def pair(subject: Any) -> Iterator[list[Any]]:
    """Of processes that were just started: a takeover may end the connections of those before."""
    with closing(subject.open()) as one, closing(subject.open()) as other:
        yield [one, other]


def at_once(ledgers: list[Any]) -> list[Tenure]:
    """Each takes over; all of them are ready before the first one does."""
    start, taken = Barrier(len(ledgers)), list[Tenure]()

    def race(ledger: Any) -> None:
        ledger.positions(PIPELINE)  # it is connected
        start.wait(PATIENCE)
        taken.append(owner(ledger))

    racers = [Thread(target=race, args=(ledger,)) for ledger in ledgers]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(PATIENCE)
    return taken


def test_of_two_that_take_over_at_once_one_is_the_owner(subject: Any) -> None:
    for position in range(TIMES):
        with pair(subject) as (one, other):
            taken = at_once([one, other])
            assert len({tenure.token for tenure in taken}) == 2, taken
            moved = []
            for tenure in taken:
                with suppress(Fenced):
                    one.advance(batch(tenure, position, position + 1))
                    moved.append(tenure)
            assert len(moved) == 1, taken
            assert moved[0].epoch == max(tenure.epoch for tenure in taken)
            assert other.positions(PIPELINE) == {ORDERS: position + 1}
