"""The MERGE of a lake's table."""

from __future__ import annotations

from fencepost.model import Merge, Mode
from fencepost.sinks.lake.merging import statement

UPSERT, DEDUPE = Merge(Mode.UPSERT, ("id", "a`b")), Merge(Mode.DEDUPE, ("id",))


def test_all_columns() -> None:
    assert statement("delta.`/t`", "v", DEDUPE, placed=True) == (
        "MERGE INTO delta.`/t` AS t USING v AS s ON t.`id` = s.`id` WHEN NOT MATCHED THEN INSERT *"
    )
    assert statement("x", "v", UPSERT, placed=False) == (
        "MERGE INTO x AS t USING v AS s ON t.`id` = s.`id` AND t.`a``b` = s.`a``b` "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def test_a_row_of_its_own_partition_is_not_replaced_by_an_older_one() -> None:
    assert statement("x", "v", UPSERT, True, ["id", "{0}"], "_kafka_partition") == (
        "MERGE INTO x AS t USING v AS s ON t.`id` = s.`id` AND t.`a``b` = s.`a``b` WHEN MATCHED AND NOT "
        "(t._topic <=> s._topic AND t._kafka_partition <=> s._kafka_partition AND "
        "(t._offset > s._offset OR (t._offset = s._offset AND t._n > s._n))) "
        "THEN UPDATE SET t.`id` = s.`id`, t.`{0}` = s.`{0}` "
        "WHEN NOT MATCHED THEN INSERT (`id`, `{0}`) VALUES (s.`id`, s.`{0}`)"
    )
