"""Positions that a person sets: the next run goes on from there, and the one that is under way is fenced."""

from __future__ import annotations

from uuid import uuid4

import pytest

from contract.postgres_subject import InPostgres
from fencepost.delivery import deliver
from fencepost.errors import Fenced, TopicRecreated, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.local import Stack
from fencepost.model import TopicPartition
from fencepost.sinks.postgres import PostgresStore
from fencepost.testing.batches import ORDERS, PIPELINE, RETURNS, batch, owner


@pytest.fixture
def subject(stack: Stack, request: pytest.FixtureRequest) -> InPostgres:
    return InPostgres(stack.dsn, request)


@pytest.fixture
def store(subject: InPostgres) -> PostgresStore:
    return subject.open()


def test_a_run_that_is_under_way_is_fenced_and_the_next_one_goes_on_from_there(
    subject: InPostgres, store: PostgresStore
) -> None:
    tenure = owner(store)
    deliver(Guarantee.EXACTLY_ONCE, batch(tenure, 0, 3, subject.rows([0, 1, 2])), store, store)
    subject.open().set_positions(PIPELINE, {ORDERS: 1}, {})
    with pytest.raises(Unreachable):  # its connection was ended; asked again over another one, it hears why
        deliver(Guarantee.EXACTLY_ONCE, batch(tenure, 3, 4, subject.rows([3])), store, store)
    with pytest.raises(Fenced):
        deliver(Guarantee.EXACTLY_ONCE, batch(tenure, 3, 4, subject.rows([3])), store, store)
    with pytest.raises(Fenced):
        subject.open().renew(tenure, uuid4())
    after = owner(subject.open())
    assert after.positions == {ORDERS: 1}
    assert after.epoch > tenure.epoch
    assert subject.landed() == [0, 1, 2]


def test_they_replace_whatever_was_stored_of_their_topic_a_vanished_partition_too_and_leave_other_topics(
    subject: InPostgres, store: PostgresStore
) -> None:
    vanished = TopicPartition("orders", 7)
    store.take_over(PIPELINE, uuid4(), {ORDERS: 5, vanished: 3, RETURNS: 7}, {"orders": "id-1"})
    store.set_positions(PIPELINE, {ORDERS: 0}, {"orders": "id-2"})
    assert dict(store.positions(PIPELINE)) == {ORDERS: 0, RETURNS: 7}
    store.take_over(PIPELINE, uuid4(), {ORDERS: 9}, {"orders": "id-2"})
    with pytest.raises(TopicRecreated):
        store.take_over(PIPELINE, uuid4(), {ORDERS: 9}, {"orders": "id-1"})


def test_they_can_be_set_where_nothing_is_stored_over_a_table_with_rows(
    subject: InPostgres, store: PostgresStore
) -> None:
    deliver(Guarantee.EXACTLY_ONCE, batch(owner(store), 0, 2, subject.rows([0, 1])), store, store)
    store.set_positions("renamed", {ORDERS: 2}, {})
    assert store.take_over("renamed", uuid4(), {ORDERS: 0}, {}).positions == {ORDERS: 2}


def test_who_begins_beside_a_member_that_is_at_work_takes_nothing_from_it(
    subject: InPostgres, store: PostgresStore
) -> None:
    tenure = owner(store)
    subject.open().begin(PIPELINE, uuid4(), {ORDERS: 0, RETURNS: 7}, {})
    deliver(Guarantee.EXACTLY_ONCE, batch(tenure, 0, 3, subject.rows([0, 1, 2])), store, store)
    assert dict(store.positions(PIPELINE)) == {ORDERS: 3, RETURNS: 7}
