"""What every ledger must do, whatever it is made of."""

from __future__ import annotations

from threading import Barrier, Thread
from uuid import uuid4

import pytest

from fencepost.delivery import Ledger
from fencepost.errors import Fenced, Rewound, TopicRecreated, Unknown
from fencepost.model import Batch, Span, TopicPartition
from fencepost.testing.batches import ORDERS, PIPELINE, RETURNS, batch, owner
from fencepost.testing.subjects import LedgerSubject


class LedgerSuite:
    """Over whatever the fixture `subject` is."""

    @pytest.fixture
    def ledger(self, subject: LedgerSubject) -> Ledger:
        return subject.open()

    def test_nothing_is_stored_at_first(self, ledger: Ledger) -> None:
        assert dict(ledger.positions(PIPELINE)) == {}

    def test_takeover_stores_the_first_positions_and_later_ones_keep_them(self, ledger: Ledger) -> None:
        tenure = owner(ledger, start=7)
        assert tenure.positions == {ORDERS: 7}
        ledger.advance(batch(tenure, 7, 9))
        assert owner(ledger, start=0).positions == {ORDERS: 9}

    def test_takeover_counts_its_owners_and_tells_them_apart(self, ledger: Ledger) -> None:
        first, second = owner(ledger), owner(ledger)
        assert second.epoch > first.epoch
        assert second.token != first.token

    def test_a_new_partition_starts_where_it_is_told_and_the_old_one_stays(self, ledger: Ledger) -> None:
        ledger.advance(batch(owner(ledger), 0, 4))
        tenure = ledger.take_over(PIPELINE, uuid4(), {ORDERS: 0, RETURNS: 2}, {})
        assert tenure.positions == {ORDERS: 4, RETURNS: 2}

    def test_an_advance_is_seen_by_everybody_and_survives_reopening(self, subject: LedgerSubject) -> None:
        ledger = subject.open()
        done = batch(owner(ledger), 0, 5)
        assert not ledger.done(done)
        ledger.advance(done)
        assert subject.open().done(done)
        assert dict(subject.open().positions(PIPELINE)) == {ORDERS: 5}

    def test_the_same_advance_twice_is_refused_and_changes_nothing(self, ledger: Ledger) -> None:
        tenure = owner(ledger)
        ledger.advance(batch(tenure, 0, 5))
        with pytest.raises(Fenced):
            ledger.advance(batch(tenure, 0, 5))
        assert dict(ledger.positions(PIPELINE)) == {ORDERS: 5}

    @pytest.mark.parametrize(("start", "end"), [(6, 8), (4, 8), (0, 4)], ids=["gap", "overlap", "behind"])
    def test_an_advance_that_does_not_begin_at_the_position_is_refused(
        self, ledger: Ledger, start: int, end: int
    ) -> None:
        tenure = owner(ledger)
        ledger.advance(batch(tenure, 0, 5))
        with pytest.raises(Fenced):
            ledger.done(batch(tenure, start, end))
        with pytest.raises(Fenced):
            ledger.advance(batch(tenure, start, end))
        assert dict(ledger.positions(PIPELINE)) == {ORDERS: 5}

    def test_another_owner_cannot_advance(self, subject: LedgerSubject) -> None:
        old = owner(subject.open())
        new = owner(subject.open())
        with pytest.raises(Fenced):
            subject.open().done(batch(old, 0, 5))
        with pytest.raises(Fenced):
            subject.open().advance(batch(old, 0, 5))
        subject.open().advance(batch(new, 0, 5))

    def test_a_partition_that_nobody_took_over_is_refused(self, ledger: Ledger) -> None:
        tenure = owner(ledger)
        stranger = Batch({TopicPartition("orders", 9): Span(0, 1)}, (), tenure)
        with pytest.raises(Fenced):
            ledger.advance(stranger)

    def test_several_positions_move_together_or_not_at_all(self, subject: LedgerSubject) -> None:
        if getattr(subject, "one_span_only", False):
            pytest.skip("each source partition has a fence of its own")
        ledger = subject.open()
        tenure = owner(ledger, ORDERS, RETURNS)
        ledger.advance(batch(tenure, 0, 3))
        both = Batch({RETURNS: Span(0, 2), ORDERS: Span(0, 3)}, (), tenure)
        with pytest.raises(Fenced):
            ledger.done(both)  # one at its end, the other at its start
        with pytest.raises(Fenced):
            ledger.advance(both)
        assert dict(ledger.positions(PIPELINE)) == {ORDERS: 3, RETURNS: 0}
        ledger.advance(Batch({RETURNS: Span(0, 2), ORDERS: Span(3, 5)}, (), tenure))
        assert dict(ledger.positions(PIPELINE)) == {ORDERS: 5, RETURNS: 2}

    def test_an_empty_span_is_done_for_its_owner_and_fenced_for_others(self, ledger: Ledger) -> None:
        old = owner(ledger)
        assert ledger.done(batch(old, 0, 0))
        owner(ledger)
        with pytest.raises(Fenced):
            ledger.done(batch(old, 0, 0))

    def test_pipelines_do_not_see_each_other(self, ledger: Ledger) -> None:
        tenure = owner(ledger)
        other = ledger.take_over("other", uuid4(), {ORDERS: 3}, {})
        ledger.advance(batch(tenure, 0, 5))
        assert dict(ledger.positions("other")) == {ORDERS: 3}
        ledger.advance(batch(other, 3, 4))

    def test_a_recreated_topic_is_refused_and_nothing_is_taken_over(self, ledger: Ledger) -> None:
        tenure = ledger.take_over(PIPELINE, uuid4(), {ORDERS: 0}, {"orders": "id-1"})
        with pytest.raises(TopicRecreated):
            ledger.take_over(PIPELINE, uuid4(), {ORDERS: 0}, {"orders": "id-2"})
        ledger.advance(batch(tenure, 0, 5))
        assert ledger.take_over(PIPELINE, uuid4(), {ORDERS: 0}, {"orders": "id-1"}).positions == {ORDERS: 5}

    def test_a_position_behind_the_batch_says_that_the_store_went_back(self, ledger: Ledger) -> None:
        tenure = owner(ledger)
        with pytest.raises(Rewound):
            ledger.done(batch(tenure, 5, 9))

    def test_a_renewed_owner_goes_on_and_its_own_stragglers_are_refused(self, ledger: Ledger) -> None:
        before = owner(ledger)
        ledger.advance(batch(before, 0, 2))
        after = ledger.renew(before, uuid4())
        assert after.positions == {ORDERS: 2}
        assert after.epoch == before.epoch
        with pytest.raises(Fenced):
            ledger.advance(batch(before, 2, 4))
        ledger.advance(batch(after, 2, 4))

    def test_a_renewal_may_be_repeated_when_its_answer_was_lost(self, ledger: Ledger) -> None:
        tenure, token = owner(ledger), uuid4()
        ledger.renew(tenure, token)
        assert ledger.renew(tenure, token).token == token

    def test_an_owner_that_was_replaced_cannot_renew(self, ledger: Ledger) -> None:
        old = owner(ledger, ORDERS, RETURNS)
        new = owner(ledger, RETURNS)
        with pytest.raises(Fenced):
            ledger.renew(old, uuid4())
        ledger.advance(batch(old, 0, 1))  # a renewal that failed changed nothing: this part is still its own
        ledger.advance(Batch({RETURNS: Span(0, 1)}, (), new))

    def test_of_two_that_advance_at_once_one_moves_the_position(self, subject: LedgerSubject) -> None:
        tenure = owner(subject.open())
        start = Barrier(2)
        outcomes: list[str] = []

        def race() -> None:
            ledger = subject.open()
            start.wait()
            try:
                ledger.advance(batch(tenure, 0, 5))
                outcomes.append("moved")
            except (Fenced, Unknown):  # unknown: of a commit that Kafka had to be asked for twice
                outcomes.append("not")

        racers = [Thread(target=race) for _ in range(2)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(timeout=30)
        assert sorted(outcomes) == ["moved", "not"]
        assert subject.open().positions(PIPELINE) == {ORDERS: 5}

    def test_a_position_is_put_back_and_may_be_advanced_again(self, ledger: Ledger) -> None:
        tenure = owner(ledger)
        ledger.advance(batch(tenure, 0, 5))
        ledger.retreat(batch(tenure, 0, 5))
        assert not ledger.done(batch(tenure, 0, 5))
        assert dict(ledger.positions(PIPELINE)) == {ORDERS: 0}
        ledger.advance(batch(tenure, 0, 3))
        ledger.advance(batch(tenure, 3, 5))
        assert dict(ledger.positions(PIPELINE)) == {ORDERS: 5}

    def test_the_same_retreat_twice_is_refused_and_changes_nothing(self, ledger: Ledger) -> None:
        tenure = owner(ledger)
        ledger.advance(batch(tenure, 0, 5))
        ledger.retreat(batch(tenure, 0, 5))
        with pytest.raises(Fenced):
            ledger.retreat(batch(tenure, 0, 5))
        assert dict(ledger.positions(PIPELINE)) == {ORDERS: 0}

    @pytest.mark.parametrize(("start", "end"), [(0, 4), (5, 9), (0, 9)], ids=["before", "behind", "over"])
    def test_only_the_batch_that_ends_at_the_position_can_be_put_back(
        self, ledger: Ledger, start: int, end: int
    ) -> None:
        tenure = owner(ledger)
        ledger.advance(batch(tenure, 0, 4))
        ledger.advance(batch(tenure, 4, 5))
        with pytest.raises(Fenced):
            ledger.retreat(batch(tenure, start, end))
        assert dict(ledger.positions(PIPELINE)) == {ORDERS: 5}

    def test_a_zombie_puts_back_no_position_of_its_successor(self, subject: LedgerSubject) -> None:
        ledger = subject.open()
        old = owner(ledger)
        ledger.advance(batch(old, 0, 5))
        new = owner(subject.open())
        with pytest.raises(Fenced):
            subject.open().retreat(batch(old, 0, 5))
        assert dict(subject.open().positions(PIPELINE)) == {ORDERS: 5}
        ledger = subject.open()
        ledger.advance(batch(new, 5, 6))
        assert dict(ledger.positions(PIPELINE)) == {ORDERS: 6}

    def test_an_owners_own_straggler_puts_nothing_back_after_its_renewal(self, ledger: Ledger) -> None:
        before = owner(ledger)
        ledger.advance(batch(before, 0, 5))
        after = ledger.renew(before, uuid4())
        with pytest.raises(Fenced):
            ledger.retreat(batch(before, 0, 5))
        ledger.retreat(batch(after, 0, 5))
        assert dict(ledger.positions(PIPELINE)) == {ORDERS: 0}

    def test_several_positions_are_put_back_together_or_not_at_all(self, subject: LedgerSubject) -> None:
        if getattr(subject, "one_span_only", False):
            pytest.skip("each source partition has a fence of its own")
        ledger = subject.open()
        tenure = owner(ledger, ORDERS, RETURNS)
        both = Batch({RETURNS: Span(0, 2), ORDERS: Span(0, 3)}, (), tenure)
        ledger.advance(both)
        ledger.advance(batch(tenure, 3, 4))
        with pytest.raises(Fenced):
            ledger.retreat(both)
        assert dict(ledger.positions(PIPELINE)) == {ORDERS: 4, RETURNS: 2}
        ledger.retreat(batch(tenure, 3, 4))
        ledger.retreat(both)
        assert dict(ledger.positions(PIPELINE)) == {ORDERS: 0, RETURNS: 0}
