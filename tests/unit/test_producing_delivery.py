"""A source through the three orders: what is sent, what is stored, and what happens after trouble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast
from uuid import uuid4

import pytest

from fencepost.delivery import AtomicSink, deliver
from fencepost.errors import Fenced, FencepostError, Refused, Unknown
from fencepost.guarantee import Guarantee
from fencepost.model import Outcome, Tenure
from fencepost.producing.batches import Chunks, Limits, Reader, SourceBatch
from fencepost.producing.delivery_reports import Totals
from fencepost.producing.events import Event
from fencepost.producing.source_position import SourcePosition, StoredPlace
from fencepost.producing.source_producer import SourceProducer
from fencepost.producing.source_store import SourceStore, SourceTotals
from fencepost.producing.sources.source import Place, numbered_orders

EXACTLY, AT_LEAST, AT_MOST = Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE


class Log:
    """A topic, a group's offset, and the producer and the consumer that reach them."""

    def __init__(self, guarantee: Guarantee) -> None:
        self.guarantee = guarantee
        self.steps: list[str] = []
        self.stored: Place | None = None
        self.owner = ""
        self.fenced = False
        self.totals = Totals()
        self.last_transaction: Outcome | None = None
        self.refusals: list[tuple[int, str]] = []
        self.commit_says: FencepostError | None = None
        self.commit_lands = True

    # the producer

    def send_all(self, events: Sequence[Event]) -> None:
        self.steps.append(f"send {len(events)}")

    def flush(self) -> Totals:
        return self.totals

    def take_refusals(self) -> list[tuple[int, str]]:
        taken, self.refusals = self.refusals, []
        return taken

    @contextmanager
    def transaction(self) -> Iterator[None]:
        before = self.stored
        yield
        said, self.commit_says = self.commit_says, None
        if said is not None and not self.commit_lands:
            self.stored = before
        self.steps.append("commit")
        if said is not None:
            raise said

    def take_over(self) -> None:
        self.steps.append("take over")
        if self.fenced:
            raise Fenced("too long, or replaced")

    def take_back(self) -> None:
        self.steps.append("take back")
        self.fenced = False

    # the position

    def read(self) -> StoredPlace | None:
        self.steps.append("read")
        return None if self.stored is None else StoredPlace(self.stored, self.owner)

    def store(self, place: Place) -> None:
        self.steps.append("store")
        self.stored = place

    def store_with(self, _producer: SourceProducer, place: Place, owner: str) -> None:
        self.store(place)
        self.owner = owner


def opened(guarantee: Guarantee, *, skip_refused: bool = False) -> tuple[Log, SourceStore, SourceBatch]:
    log, source = Log(guarantee), numbered_orders(7)
    store = SourceStore(
        cast(SourceProducer, log), cast(SourcePosition, log), source.place, SourceTotals(), skip_refused=skip_refused
    )
    store.take_over("orders", uuid4(), {}, {})
    log.steps.clear()
    reader = Reader(source, store.place, Limits(chunk=5))
    return log, store, SourceBatch({}, Chunks(reader, store.place), Tenure("orders", uuid4(), 0, {}))


def test_it_is_an_atomic_sink() -> None:
    assert isinstance(opened(EXACTLY)[1], AtomicSink)


@pytest.mark.parametrize(
    ("guarantee", "steps"),
    [
        (AT_MOST, ["store", "send 5", "send 2"]),
        (AT_LEAST, ["send 5", "send 2", "store"]),
        (EXACTLY, ["send 5", "send 2", "store", "commit"]),
    ],
)
def test_the_order_is_the_guarantee_and_a_second_delivery_changes_nothing(
    guarantee: Guarantee, steps: list[str]
) -> None:
    log, store, batch = opened(guarantee)
    assert not deliver(guarantee, batch, store, store).already
    assert (log.steps, cast(Place, log.stored)["number"]) == (steps, 7)
    assert deliver(guarantee, batch, store, store).already
    assert log.steps == steps


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_in_doubt_is_decided_by_taking_over_before_the_position_is_read(landed: bool) -> None:
    log, store, batch = opened(EXACTLY)
    log.commit_says, log.commit_lands = Unknown("no answer"), landed
    if landed:
        assert deliver(EXACTLY, batch, store, store).already
    else:
        with pytest.raises(Unknown):
            deliver(EXACTLY, batch, store, store)
    assert log.steps[-3:] == ["commit", "take over", "read"]
    assert store.certain  # it may be tried again
    assert deliver(EXACTLY, batch, store, store).already is landed


def test_a_position_that_is_elsewhere_is_somebody_elses() -> None:
    log, store, batch = opened(EXACTLY)
    log.commit_says, log.commit_lands = Unknown("no answer"), False

    def moved() -> None:
        log.stored = {"number": 99}

    log.take_over = moved  # type: ignore[method-assign]
    with pytest.raises(Fenced, match="99"):
        deliver(EXACTLY, batch, store, store)


@pytest.mark.parametrize("landed", [True, False])
def test_a_producer_that_was_fenced_and_not_replaced_goes_on(landed: bool) -> None:
    """Its transaction took longer than brokers wait."""
    log, store, batch = opened(EXACTLY)
    log.commit_says, log.commit_lands, log.fenced = Fenced("too long, or replaced"), landed, True
    if landed:
        assert deliver(EXACTLY, batch, store, store).already
    else:
        with pytest.raises(Fenced, match="too long"):
            deliver(EXACTLY, batch, store, store)
    assert log.steps[-4:] == ["take over", "read", "take back", "read"]
    assert store.certain  # it may be tried again
    assert deliver(EXACTLY, batch, store, store).already is landed
    assert (cast(Place, log.stored)["number"], log.owner) == (7, store._owner)


def test_who_goes_on_stores_that_it_is_the_owner_now_before_it_sends() -> None:
    log = Log(EXACTLY)
    log.stored, log.owner = {"number": 3}, "earlier"
    store = SourceStore(cast(SourceProducer, log), cast(SourcePosition, log), dict, SourceTotals())
    tenure = store.take_over("orders", uuid4(), {}, {})
    assert (store.place, log.owner) == ({"number": 3}, "earlier")
    store.claim(tenure)
    assert (store.place, log.owner) == ({"number": 3}, str(tenure.token))
    log.steps.clear()
    store.claim(tenure)
    assert log.steps == []


def test_a_producer_that_was_replaced_takes_nothing_back() -> None:
    log, store, batch = opened(EXACTLY)
    log.commit_says, log.commit_lands, log.fenced = Fenced("too long, or replaced"), False, True
    log.owner = "another"
    log.store_with = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(Fenced, match="another run of this source took over"):
        deliver(EXACTLY, batch, store, store)
    assert "take back" not in log.steps
    assert not store.certain


def test_who_takes_back_from_a_successor_that_was_still_beginning_learns_of_it() -> None:
    log, store, batch = opened(EXACTLY)
    log.commit_says, log.commit_lands, log.fenced = Fenced("too long, or replaced"), False, True

    def late() -> None:
        log.owner = "another"

    log.take_back = late  # type: ignore[method-assign]
    with pytest.raises(Fenced, match="another run of this source took over"):
        deliver(EXACTLY, batch, store, store)
    assert not store.certain


def test_at_most_once_a_refused_event_does_not_bring_the_others_back() -> None:
    log, store, batch = opened(AT_MOST)
    log.refusals = [(3, "too large")]
    with pytest.raises(Refused, match="event 3"):
        deliver(AT_MOST, batch, store, store)
    assert cast(Place, log.stored)["number"] == 7


def test_at_least_once_an_event_without_an_answer_keeps_the_position() -> None:
    log, store, batch = opened(AT_LEAST)

    def unanswered() -> Totals:
        log.totals = Totals(7, Counter({Outcome.ACKED: 6, Outcome.UNKNOWN: 1}), "timed out")
        return log.totals

    log.flush = unanswered  # type: ignore[method-assign]
    with pytest.raises(Unknown, match="timed out"):
        deliver(AT_LEAST, batch, store, store)
    assert (cast(Place, log.stored)["number"], store.totals.unknown, store.totals.acked) == (0, 1, 6)
