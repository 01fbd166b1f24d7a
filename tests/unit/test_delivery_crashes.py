"""The idea under every crash, replay, stall, takeover and unknown answer that hypothesis can think of.

A story is one process after another over one partition. Each attempt at a batch goes through, dies after a
step, gets no answer, or stalls: then the rest of the story happens to its successors before it wakes up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import example, find, given, settings
from hypothesis import strategies as st

from fencepost import fence
from fencepost.delivery import deliver
from fencepost.errors import Fenced, Unknown
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Span, Step, Tenure, TopicPartition
from fencepost.sinks.memory.store import Memory, MemoryStore, MemoryTransaction, Rows
from support.drawn import examples

ORDERS = TopicPartition("orders", 0)
EVENTS = 12


class Crash(BaseException):
    """The process is gone; nothing below it may catch this."""


@dataclass(frozen=True)
class Go:
    """The attempt goes through."""


@dataclass(frozen=True)
class Die:
    """The process dies right after the step, and another one takes over."""

    after: Step


@dataclass(frozen=True)
class Stall:
    """The process sleeps after the step; successors live through the rest of the story; then it wakes up."""

    after: Step


@dataclass(frozen=True)
class NoAnswer:
    """The first or second change (a write, an advance, a commit) is made or not, and its answer is lost."""

    happened: bool
    change: int = 0


Move = Go | Die | Stall | NoAnswer
STEPS = st.sampled_from(list(Step))
MOVES = st.one_of(
    st.just(Go()),
    st.builds(Die, STEPS),
    st.builds(Stall, STEPS),
    st.builds(NoAnswer, st.booleans(), st.integers(0, 1)),
)
STORIES = st.lists(st.tuples(st.integers(1, 5), MOVES), max_size=12)


class ShakyStore(MemoryStore):
    """A store whose next change may be answered by silence."""

    no_answer: NoAnswer | None = None
    changes = 0

    def write(self, batch: Batch[Rows]) -> Any:
        with self._answer():
            return super().write(batch)

    def advance(self, batch: Batch[Any]) -> None:
        with self._answer():
            super().advance(batch)

    def _commit(self, transaction: MemoryTransaction) -> None:
        with self._answer():
            super()._commit(transaction)

    @contextmanager
    def _answer(self) -> Iterator[None]:
        silence = self.no_answer if self.no_answer and self.no_answer.change == self.changes else None
        self.changes += 1
        if silence and not silence.happened:
            raise Unknown("cut before it was sent")
        yield
        if silence:
            raise Unknown("the answer was lost")


@dataclass
class World:
    """One topic partition, one store, and the moves that are still to come."""

    guarantee: Guarantee
    moves: list[tuple[int, Move]]
    memory: Memory = field(default_factory=Memory)

    def tell(self) -> Counter[int]:
        """Live through the story; then one quiet process drains what is left."""
        self.new_process()
        self.new_process()
        return Counter(self.memory.rows)

    def new_process(self) -> None:
        store = ShakyStore(self.memory)
        tenure = store.take_over("p", uuid4(), {ORDERS: 0}, {})
        try:
            self.work(store, tenure)
        except Fenced:
            return  # a successor was there first: exit code 4, and no restart
        except Crash:
            self.new_process()

    def work(self, store: ShakyStore, tenure: Tenure) -> None:
        position = tenure.positions[ORDERS]
        while position < EVENTS:
            size, move = self.moves.pop(0) if self.moves else (EVENTS, Go())
            span = Span(position, min(position + size, EVENTS))
            batch = Batch({ORDERS: span}, range(span.start, span.end), tenure)
            try:
                self.attempt(store, batch, move)
                position = span.end
            except Unknown:  # what pipeline.py does: a new token, and go on from the ledger
                tenure = store.renew(tenure, uuid4())
                position = tenure.positions[ORDERS]

    def attempt(self, store: ShakyStore, batch: Batch[Rows], move: Move) -> None:
        def see(step: Step, _batch: Batch[Any]) -> None:
            if isinstance(move, Die) and move.after == step:
                raise Crash
            if isinstance(move, Stall) and move.after == step:
                self.new_process()

        store.changes, store.no_answer = 0, move if isinstance(move, NoAnswer) else None
        deliver(self.guarantee, batch, store, store, see)


def lost(landed: Counter[int]) -> bool:
    return any(event not in landed for event in range(EVENTS))


def doubled(landed: Counter[int]) -> bool:
    return any(times > 1 for times in landed.values())


def tell(guarantee: Guarantee, story: list[tuple[int, Move]]) -> Counter[int]:
    return World(guarantee, list(story)).tell()


@given(STORIES)
@settings(max_examples=examples(250, 1000), deadline=None)
@example([(5, Stall(Step.WRITTEN)), (5, Stall(Step.ADVANCED)), (5, NoAnswer(True))])
def test_exactly_once_neither_loses_nor_doubles(story: list[tuple[int, Move]]) -> None:
    assert tell(Guarantee.EXACTLY_ONCE, story) == Counter(range(EVENTS))


@given(STORIES)
@settings(max_examples=examples(250, 1000), deadline=None)
def test_at_least_once_never_loses(story: list[tuple[int, Move]]) -> None:
    assert not lost(tell(Guarantee.AT_LEAST_ONCE, story))


@given(STORIES)
@settings(max_examples=examples(250, 1000), deadline=None)
def test_at_most_once_never_doubles(story: list[tuple[int, Move]]) -> None:
    assert not doubled(tell(Guarantee.AT_MOST_ONCE, story))


@pytest.mark.parametrize(
    "move", [Die(Step.ADVANCED), NoAnswer(True)], ids=["crash between", "advance without an answer"]
)
def test_at_most_once_is_seen_to_lose(move: Move) -> None:
    assert lost(tell(Guarantee.AT_MOST_ONCE, [(5, move)]))


@pytest.mark.parametrize(
    "move",
    [Die(Step.WRITTEN), Stall(Step.WRITTEN), NoAnswer(True), NoAnswer(False, change=1)],
    ids=["crash between", "a zombie between", "write without an answer", "advance that was never sent"],
)
def test_at_least_once_is_seen_to_double(move: Move) -> None:
    assert doubled(tell(Guarantee.AT_LEAST_ONCE, [(5, move)]))


def test_the_sweep_finds_both_anomalies_by_itself() -> None:
    """The stories reach the anomalies of the weaker words: else the sweep would prove nothing."""
    losing = find(STORIES, lambda story: lost(tell(Guarantee.AT_MOST_ONCE, story)))
    doubling = find(STORIES, lambda story: doubled(tell(Guarantee.AT_LEAST_ONCE, story)))
    assert lost(tell(Guarantee.AT_MOST_ONCE, losing))
    assert doubled(tell(Guarantee.AT_LEAST_ONCE, doubling))


def test_without_the_fence_exactly_once_is_seen_to_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions that anybody may move from anywhere: what the sweep must catch."""
    monkeypatch.setattr(fence, "require_start", lambda _stored, _batch: None)
    story: list[tuple[int, Move]] = [(5, Stall(Step.WRITTEN))]
    assert doubled(tell(Guarantee.EXACTLY_ONCE, story))


def test_a_renewal_whose_answer_was_lost_is_not_a_fence() -> None:
    store = MemoryStore()
    tenure = store.take_over("p", uuid4(), {ORDERS: 0}, {})
    token: UUID = uuid4()
    store.renew(tenure, token)
    assert store.renew(tenure, token).token == token
