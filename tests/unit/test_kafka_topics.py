"""What can be said of topics and groups without a broker."""

from __future__ import annotations

import pytest

from fencepost.errors import Usage
from fencepost.kafka.groups import lag
from fencepost.kafka.names import did_you_mean
from fencepost.kafka.topics import TopicRequest


@pytest.mark.parametrize(("replicas", "least"), [(1, "1"), (2, "2"), (3, "2"), (5, "2")])
def test_two_replicas_in_sync_unless_there_is_only_one(replicas: int, least: str) -> None:
    assert TopicRequest("orders", replication_factor=replicas).full_config() == {"min.insync.replicas": least}


def test_what_is_given_wins() -> None:
    request = TopicRequest("orders", config={"min.insync.replicas": "1", "retention.ms": "5"})
    assert request.full_config() == {"min.insync.replicas": "1", "retention.ms": "5"}


def test_a_minimum_that_can_never_be_met_is_refused() -> None:
    with pytest.raises(Usage, match=r"min\.insync\.replicas=4 with 3 replicas"):
        TopicRequest("orders", config={"min.insync.replicas": "4"}).full_config()


@pytest.mark.parametrize(
    ("position", "end", "left"),
    [
        (3, 10, 7),
        (10, 10, 0),
        (0, 0, 0),
        (None, 10, None),  # nothing stored: not the same as everything left to read
        (3, None, None),  # no leader to ask
        (12, 10, -2),  # the topic was made anew under the group
    ],
)
def test_lag_is_what_is_left_to_read(position: int | None, end: int | None, left: int | None) -> None:
    assert lag(position, end) == left


def test_the_nearest_name_is_offered() -> None:
    assert did_you_mean("order", ["payments", "orders"], "look") == "did you mean orders?"
    assert did_you_mean("zzz", ["payments", "orders"], "look") == "look"
    assert did_you_mean("zzz", [], "look") == "look"
