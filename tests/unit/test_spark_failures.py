"""What is said of a record that Spark cannot read."""

from __future__ import annotations

from fencepost.engines.spark.failures import unreadable
from fencepost.model import TopicPartition

AT = TopicPartition("orders", 2)


def test_a_record_that_spark_cannot_read_is_named_and_the_way_over_it_skips_nothing_else() -> None:
    told = unreadable(AT, offset=7, position=7)
    assert "orders/2 offset 7" in told.message
    assert told.remedy.endswith("fencepost positions set --topic orders --to 2:8")


def test_where_others_stand_before_it_they_are_carried_first() -> None:
    told = unreadable(AT, offset=7, position=3)
    assert "positions set" not in told.remedy
    assert "set batch: {records: 1}" in told.remedy
