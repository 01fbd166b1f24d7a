"""What the engines and `fencepost positions` ask of a store besides its batches."""

from __future__ import annotations

from uuid import uuid4

import pytest

from fencepost.errors import Fenced, TopicRecreated
from fencepost.testing.batches import ORDERS, PIPELINE, RETURNS, batch, owner
from fencepost.testing.subjects import StoreSubject


class StoreSuite:
    """Over whatever the fixture `subject` is."""

    def test_what_is_stored_is_told_with_its_owner_and_stays_as_it_is(self, subject: StoreSubject) -> None:
        assert dict(subject.open().stored(PIPELINE)) == {}
        tenure = owner(subject.open())
        held = subject.open().stored(PIPELINE)[ORDERS]
        assert (held.position, held.owner, held.epoch) == (0, tenure.token, tenure.epoch)
        subject.open().advance(batch(tenure, 0, 3))
        assert subject.open().stored(PIPELINE)[ORDERS].position == 3

    def test_a_group_begins_where_nothing_is_stored_and_takes_nothing_from_its_members(
        self, subject: StoreSubject
    ) -> None:
        member = owner(subject.open(), ORDERS)
        subject.open().advance(batch(member, 0, 3))
        subject.open().begin(PIPELINE, uuid4(), {ORDERS: 0, RETURNS: 7}, {})
        assert dict(subject.open().positions(PIPELINE)) == {ORDERS: 3, RETURNS: 7}
        subject.open().advance(batch(member, 3, 5))

    def test_another_topic_of_the_same_name_is_told_and_nothing_changes(self, subject: StoreSubject) -> None:
        subject.open().take_over(PIPELINE, uuid4(), {ORDERS: 2}, {"orders": "id-1"})
        subject.open().require_same(PIPELINE, {"orders": "id-1"})
        with pytest.raises(TopicRecreated):
            subject.open().require_same(PIPELINE, {"orders": "id-2"})
        assert dict(subject.open().positions(PIPELINE)) == {ORDERS: 2}

    def test_positions_that_are_set_by_hand_fence_the_run_that_is_under_way(self, subject: StoreSubject) -> None:
        old = owner(subject.open(), ORDERS, RETURNS)
        subject.open().advance(batch(old, 0, 5))
        subject.open().set_positions(PIPELINE, {ORDERS: 2}, {})
        assert dict(subject.open().positions(PIPELINE)) == {ORDERS: 2, RETURNS: 0}
        with pytest.raises(Fenced):
            subject.open().advance(batch(old, 5, 6))
        assert owner(subject.open()).positions == {ORDERS: 2}

    def test_partitions_that_nobody_named_stay_where_they_are_and_new_ones_begin(self, subject: StoreSubject) -> None:
        old = owner(subject.open(), ORDERS)
        subject.open().advance(batch(old, 0, 5))
        subject.open().set_positions(PIPELINE, {}, {}, kept={ORDERS: 1, RETURNS: 4})
        assert dict(subject.open().positions(PIPELINE)) == {ORDERS: 5, RETURNS: 4}
        with pytest.raises(Fenced):
            subject.open().advance(batch(old, 5, 6))
