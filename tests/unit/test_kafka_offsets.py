"""Where topics are read from: what is stored, and where those begin of which nothing is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from fencepost.errors import PositionLost, RecordsGone, TopicRecreated, Usage
from fencepost.kafka import offsets
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import Start, TopicReader, by_place
from fencepost.model import TopicPartition

BOUNDS = {  # what the topics hold
    TopicPartition("orders", 0): (5, 20),
    TopicPartition("orders", 1): (0, 30),
    TopicPartition("refunds", 0): (2, 9),
}
ORDERS = {TopicPartition("orders", 0): 10, TopicPartition("orders", 1): 12}


@pytest.fixture(autouse=True)
def ids(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A cluster that holds just these topics, with these ids."""
    ids = {"orders": "a", "refunds": "b"}

    def described(_cluster: object, topic: str, _seen: int = 1) -> tuple[str, list[int]]:
        return ids[topic], [at.partition for at in BOUNDS if at.topic == topic]

    def found(_cluster: object, partitions: Iterable[TopicPartition], spec: Any) -> dict[TopicPartition, int]:
        last = type(spec).__name__ == "LatestSpec"
        return {at: BOUNDS[at][last] for at in partitions}

    monkeypatch.setattr(offsets, "topic_id_and_partitions", described)
    monkeypatch.setattr(offsets, "offsets_at", found)
    return ids


def reader(*topics: str) -> TopicReader:
    return TopicReader(cast(Cluster, None), *topics)


def at(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)


@pytest.mark.parametrize(
    ("start", "begins"),
    [("earliest", 2), ("latest", 9), ({"refunds": {0: 4}}, 4), ({"orders": {0: 6}}, 2), ({"orders": {0: 1}}, 2)],
)
def test_a_topic_that_is_new_begins_where_the_start_says_and_the_others_go_on(start: Start, begins: int) -> None:
    found = reader("orders", "refunds").positions(ORDERS, start)
    assert found == {**ORDERS, at("refunds"): begins}  # an offset of a topic that was read means nothing any more


@pytest.mark.parametrize("start", ["earliest", "latest", {0: 6}])
def test_a_new_partition_of_a_topic_that_was_read_begins_with_its_first_record(start: Start) -> None:
    assert reader("orders").positions({at("orders", 0): 10}, start) == {at("orders", 0): 10, at("orders", 1): 0}


def test_what_is_stored_for_a_topic_that_is_not_read_is_left_alone() -> None:
    assert reader("orders").positions({**ORDERS, at("refunds"): 0, at("gone"): 7}, "latest") == ORDERS


def test_records_that_are_gone_and_partitions_that_do_not_exist_are_named_with_their_topic() -> None:
    both = reader("orders", "refunds")
    with pytest.raises(RecordsGone, match="refunds/0: the records from 1 to 1") as gone:
        both.positions({**ORDERS, at("refunds"): 1}, "earliest")
    assert "--topic refunds" in gone.value.remedy
    with pytest.raises(PositionLost, match="refunds/3"):
        both.positions({**ORDERS, at("refunds", 3): 1}, "earliest")


def test_a_topic_that_was_created_again_is_named(ids: dict[str, str]) -> None:
    both = reader("orders", "refunds")
    assert both.require_same() == list(BOUNDS)
    ids["refunds"] = "c"
    with pytest.raises(TopicRecreated, match="'refunds' was deleted"):
        both.require_same()


@pytest.mark.parametrize(
    ("start", "problem"),
    [
        ({0: 6}, "which topic"),
        ({"refunds": {1: 4}}, "refunds/1, which does not exist"),
        ({"gifts": {0: 4}}, "gifts/0, which does not exist"),
        ({"orders": {0: 4}}, "orders/0 holds the offsets 5 to 20, not 4"),
    ],
)
def test_offsets_that_mean_nothing_are_refused(start: Start, problem: str) -> None:
    with pytest.raises(Usage, match=problem):
        reader("orders", "refunds").positions({}, start)


def test_offsets_by_partition_are_of_the_only_topic() -> None:
    assert by_place({0: 6, 1: 7}, ["orders"]) == {at("orders", 0): 6, at("orders", 1): 7}
    assert by_place({"orders": {0: 6}}, ["orders", "refunds"]) == {at("orders", 0): 6}
