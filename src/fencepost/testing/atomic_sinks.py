"""What every sink must do that claims exactly-once: rows and position in one step, behind the fence."""

from __future__ import annotations

from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Thread
from uuid import uuid4

import pytest

from fencepost.delivery import Observer, deliver, nobody
from fencepost.errors import Fenced, InputCut, PositionLost, Rewound, Unknown, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Span, Step, Tenure
from fencepost.testing.batches import ORDERS, PIPELINE, RETURNS, Crash, at, batch, crash, owner
from fencepost.testing.subjects import AtomicSubject

EXACTLY_ONCE = Guarantee.EXACTLY_ONCE
ALREADY = Landed(rows=0, already=True)


def carry(subject: AtomicSubject, tenure: Tenure, start: int, end: int, see: Observer = nobody) -> Landed:
    """One attempt by a process of its own at the events from start to end, one row each."""
    store = subject.open()
    carried = batch(tenure, start, end, subject.rows(range(start, end)))
    return deliver(EXACTLY_ONCE, carried, store, store, see)


def position(subject: AtomicSubject) -> int:
    return subject.open().positions(PIPELINE)[ORDERS]


class AtomicSinkSuite:
    """Over whatever the fixture `subject` is."""

    def test_rows_and_position_land_together(self, subject: AtomicSubject) -> None:
        tenure = owner(subject.open())
        assert carry(subject, tenure, 0, 3) == Landed(rows=3)
        assert subject.landed() == [0, 1, 2]
        assert position(subject) == 3

    def test_nothing_is_visible_before_the_commit_and_everything_after(self, subject: AtomicSubject) -> None:
        tenure = owner(subject.open())
        seen: list[tuple[list[int], int]] = []

        def look() -> None:
            seen.append((subject.landed(), position(subject)))

        carry(subject, tenure, 0, 3, at(Step.WRITTEN, look))
        carry(subject, tenure, 3, 5, at(Step.ADVANCED, look))
        assert seen == [([], 0), ([0, 1, 2], 3)]
        assert subject.landed() == [0, 1, 2, 3, 4]

    def test_the_same_batch_again_changes_nothing(self, subject: AtomicSubject) -> None:
        tenure = owner(subject.open())
        carry(subject, tenure, 0, 3)
        assert carry(subject, tenure, 0, 3) == ALREADY
        assert subject.landed() == [0, 1, 2]

    @pytest.mark.parametrize(("start", "end"), [(4, 6), (2, 6), (0, 2)], ids=["gap", "overlap", "behind"])
    def test_a_batch_that_does_not_begin_at_the_position_is_refused(
        self, subject: AtomicSubject, start: int, end: int
    ) -> None:
        tenure = owner(subject.open())
        carry(subject, tenure, 0, 3)
        with pytest.raises(Fenced):
            carry(subject, tenure, start, end)
        assert subject.landed() == [0, 1, 2]

    def test_another_owner_is_refused(self, subject: AtomicSubject) -> None:
        old = owner(subject.open())
        new = owner(subject.open())
        with pytest.raises(Fenced):
            carry(subject, old, 0, 3)
        assert subject.landed() == []
        carry(subject, new, 0, 3)
        assert subject.landed() == [0, 1, 2]

    @pytest.mark.parametrize("step", [Step.STARTED, Step.WRITTEN, Step.ADVANCED])
    def test_a_crash_before_the_commit_leaves_nothing(self, subject: AtomicSubject, step: Step) -> None:
        tenure = owner(subject.open())
        with pytest.raises(Crash):
            carry(subject, tenure, 0, 3, at(step, crash))
        assert subject.landed() == []
        assert position(subject) == 0
        assert carry(subject, tenure, 0, 3) == Landed(rows=3)

    def test_a_crash_after_the_commit_leaves_everything(self, subject: AtomicSubject) -> None:
        tenure = owner(subject.open())
        with pytest.raises(Crash):
            carry(subject, tenure, 0, 3, at(Step.DELIVERED, crash))
        assert carry(subject, tenure, 0, 3) == ALREADY
        assert subject.landed() == [0, 1, 2]

    def test_an_input_that_is_cut_off_commits_nothing(self, subject: AtomicSubject) -> None:
        store = subject.open()
        tenure = owner(store)
        with pytest.raises(InputCut):
            deliver(EXACTLY_ONCE, batch(tenure, 0, 3, subject.cut_rows([0, 1])), store, store)
        assert subject.landed() == []
        assert position(subject) == 0

    def test_a_commit_that_arrives_late_makes_the_second_attempt_say_already(self, subject: AtomicSubject) -> None:
        if not subject.doubles:
            pytest.skip("where rows have keys the second attempt waits for the first: see the race below")
        tenure = owner(subject.open())
        other_attempt = at(Step.WRITTEN, lambda: carry(subject, tenure, 0, 3))
        assert carry(subject, tenure, 0, 3, other_attempt) == ALREADY
        assert subject.landed() == [0, 1, 2]

    @pytest.mark.parametrize("step", [Step.STARTED, Step.WRITTEN])
    def test_a_takeover_in_the_middle_fences_the_old_owner(self, subject: AtomicSubject, step: Step) -> None:
        old = owner(subject.open())
        successors: list[Tenure] = []

        def take_over() -> None:
            successors.append(owner(subject.open()))

        with pytest.raises(Fenced):
            carry(subject, old, 0, 3, at(step, take_over))
        assert subject.landed() == []
        assert carry(subject, successors[0], 0, 3) == Landed(rows=3)
        assert subject.landed() == [0, 1, 2]

    def test_a_zombie_that_wakes_up_after_its_successor_finished_is_fenced(self, subject: AtomicSubject) -> None:
        old = owner(subject.open())

        def succeed() -> None:
            carry(subject, owner(subject.open()), 0, 3)

        with pytest.raises(Fenced):
            carry(subject, old, 0, 3, at(Step.WRITTEN, succeed))
        assert subject.landed() == [0, 1, 2]

    def test_a_takeover_during_the_commit_waits_for_it_or_fences_it(self, subject: AtomicSubject) -> None:
        """The takeover sees the batch whole with its end position, or the batch is fenced and leaves nothing."""
        old = owner(subject.open())
        committing = Barrier(2)
        outcome: list[str] = []

        def commit() -> None:
            try:
                carry(subject, old, 0, 3, at(Step.ADVANCED, lambda: committing.wait(30)))
                outcome.append("landed")
            except Fenced:
                outcome.append("fenced")

        writer = Thread(target=commit)
        writer.start()
        committing.wait(30)
        new = owner(subject.open())
        writer.join(timeout=30)
        landed, stored = ([0, 1, 2], 3) if outcome == ["landed"] else ([], 0)
        assert outcome in (["landed"], ["fenced"])
        assert subject.landed() == landed
        assert new.positions == {ORDERS: stored}

    def test_an_empty_span_changes_nothing(self, subject: AtomicSubject) -> None:
        tenure = owner(subject.open())
        assert carry(subject, tenure, 0, 0) == ALREADY
        assert position(subject) == 0

    def test_a_span_without_rows_moves_the_position(self, subject: AtomicSubject) -> None:
        store = subject.open()
        tenure = owner(store)
        assert deliver(EXACTLY_ONCE, batch(tenure, 0, 3, subject.rows([])), store, store) == Landed(rows=0)
        assert subject.landed() == []
        assert position(subject) == 3

    def test_partitions_move_independently(self, subject: AtomicSubject) -> None:
        store = subject.open()
        tenure = owner(store, ORDERS, RETURNS)
        carry(subject, tenure, 0, 2)
        returned = Batch({RETURNS: Span(0, 1)}, subject.rows([10]), tenure)
        deliver(EXACTLY_ONCE, returned, store, store)
        assert sorted(subject.landed()) == [0, 1, 10]
        assert dict(store.positions(PIPELINE)) == {ORDERS: 2, RETURNS: 1}

    def test_two_attempts_that_race_land_once(self, subject: AtomicSubject) -> None:
        tenure = owner(subject.open())
        together = Step.WRITTEN if subject.doubles else Step.STARTED  # rows with keys: one writes, and the other waits
        both_written = Barrier(2)
        outcomes: list[Landed] = []
        pushed_aside: list[Exception] = []

        def meet() -> None:
            with suppress(BrokenBarrierError):  # where the later attempt fences the earlier one, that does not come
                both_written.wait(30)

        def attempt() -> None:
            try:
                outcomes.append(carry(subject, tenure, 0, 3, at(together, meet)))
            except (Unreachable, Rewound, Unknown) as trouble:
                pushed_aside.append(trouble)
                both_written.abort()

        racers = [Thread(target=attempt) for _ in range(2)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(timeout=60)
        outcomes.extend(carry(subject, tenure, 0, 3) for _ in pushed_aside)  # as a run goes on after these
        assert sorted(outcomes, key=lambda landed: landed.already) == [Landed(rows=3), ALREADY]
        assert subject.landed() == [0, 1, 2]

    def test_two_owners_race_and_one_is_fenced(self, subject: AtomicSubject) -> None:
        both_took_over = Barrier(2)
        outcomes: list[str] = []

        def run() -> None:
            tenure = owner(subject.open())
            both_took_over.wait(30)
            try:
                for start in range(0, 20, 2):
                    carry(subject, tenure, start, start + 2)
                outcomes.append("finished")
            except Fenced:
                outcomes.append("fenced")

        racers = [Thread(target=run) for _ in range(2)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(timeout=240)
        assert sorted(outcomes) == ["fenced", "finished"]
        assert subject.landed() == list(range(20))

    def test_no_stored_position_over_a_sink_that_is_not_empty_is_refused(self, subject: AtomicSubject) -> None:
        carry(subject, owner(subject.open()), 0, 3)
        with pytest.raises(PositionLost):
            subject.open().take_over("renamed", uuid4(), {ORDERS: 0}, {})
        assert dict(subject.open().positions("renamed")) == {}
