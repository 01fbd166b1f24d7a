"""Asynchronous commits against a consumer that is answered when the test says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.engines.python.commits import AsyncCommits
from fencepost.engines.python.read_ahead import ReadAhead
from fencepost.errors import Fenced, Unknown
from fencepost.kafka.owned_consumer import OwnedConsumer
from fencepost.model import Batch, Span, Tenure, TopicPartition

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOBODY = Tenure("group", uuid4(), 0, {})


class Consuming:
    """Notes what is committed, one dictionary for each commit."""

    def __init__(self) -> None:
        self.commits: list[dict[int, int]] = []

    def commit(self, offsets: list[DriverPartition], asynchronous: bool) -> Any:
        self.commits.append({at.partition: at.offset for at in offsets})
        return None if asynchronous else offsets


def batch(start: int, end: int, place: TopicPartition = FIRST) -> Batch[Any]:
    return Batch({place: Span(start, end)}, [], NOBODY)


def ahead() -> tuple[ReadAhead, Consuming]:
    consumer = Consuming()
    return ReadAhead(cast(OwnedConsumer, consumer)), consumer


def test_nothing_may_be_processed_before_its_commit_is_answered() -> None:
    waiting, _ = ahead()
    first = batch(0, 10)
    waiting.add(first)
    assert waiting.next_committed() is None
    waiting.answered(None, [])
    assert waiting.next_committed() is first
    waiting.advance(first)
    assert (waiting.next_committed(), len(waiting)) == (None, 0)


def test_one_commit_is_under_way_and_the_next_is_for_all_that_waited() -> None:
    waiting, consumer = ahead()
    for at in (batch(0, 10), batch(10, 20), batch(0, 5, SECOND)):
        waiting.add(at)
    assert consumer.commits == [{0: 10}]
    waiting.answered(None, [])
    waiting.advance(cast(Batch[Any], waiting.next_committed()))
    assert waiting.next_committed() is None
    assert consumer.commits == [{0: 10}, {0: 20, 1: 5}]


def test_a_commit_that_fails_is_raised_behind_what_is_committed_and_the_rest_is_to_be_read_again() -> None:
    waiting, consumer = ahead()
    first, second = batch(0, 10), batch(10, 20)
    waiting.add(first)
    waiting.answered(None, [])
    waiting.add(second)
    waiting.add(batch(0, 5, SECOND))
    waiting.answered(KafkaError(KafkaError._TIMED_OUT), [])
    assert waiting.next_committed() is first
    waiting.advance(first)
    with pytest.raises(Unknown):
        waiting.next_committed()
    assert waiting.drop([FIRST, SECOND]) == {FIRST: 10, SECOND: 0}
    assert len(consumer.commits) == 2


def test_what_was_given_away_is_neither_processed_nor_missed() -> None:
    waiting, _ = ahead()
    waiting.add(batch(0, 10))
    waiting.add(batch(0, 5, SECOND))
    assert waiting.drop([FIRST]) == {FIRST: 0}
    waiting.answered(KafkaError(KafkaError.ILLEGAL_GENERATION), [])
    assert waiting.next_committed() is None  # it was theirs that failed
    assert waiting.partitions() == {SECOND}


def test_a_partition_that_was_refused_alone_fails_the_commit() -> None:
    waiting, _ = ahead()
    waiting.add(batch(0, 10))
    refused = SimpleNamespace(error=KafkaError(KafkaError.ILLEGAL_GENERATION))
    waiting.answered(None, [cast(DriverPartition, refused)])
    with pytest.raises(Fenced):
        waiting.next_committed()


def test_an_asynchronous_commit_waits_for_the_one_before_and_takes_along_what_failed() -> None:
    consumer = Consuming()
    commits = AsyncCommits(cast(OwnedConsumer, consumer))
    commits.advance(batch(0, 10))
    commits.advance(batch(10, 20))
    commits.advance(batch(0, 5, SECOND))
    assert consumer.commits == [{0: 10}]
    commits.answered(KafkaError(KafkaError._TIMED_OUT), [])
    commits.tick()
    assert consumer.commits == [{0: 10}, {0: 20, 1: 5}]
    commits.answered(None, [])
    commits.tick()
    commits.advance(batch(15, 18))  # an old one again: the position does not go back
    assert len(consumer.commits) == 2


def test_an_answer_for_a_partition_that_went_and_came_back_counts_for_nothing() -> None:
    consumer = Consuming()
    commits = AsyncCommits(cast(OwnedConsumer, consumer))
    commits.advance(batch(0, 10))
    commits.forget([FIRST])
    commits.answered(None, [])
    commits.advance(batch(5, 8))
    assert consumer.commits == [{0: 10}, {0: 8}]
