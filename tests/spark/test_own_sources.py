"""What a stream of one's own reads: each partition from one place, or it is refused."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from fencepost.errors import Usage
from spark.own import OwnFlow, ids


def test_a_topic_that_two_sources_read_each_at_its_own_pace_is_refused(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(100))

    def with_a_slow_one(records: DataFrame) -> DataFrame:
        return ids(records).union(ids(own.records(spark, maxOffsetsPerTrigger="10")))

    run = own.own(spark, change=with_a_slow_one)
    assert isinstance(run.error, Usage), (run.error, run.rows)
    assert "read it once" in (run.error.remedy or "")
    assert own.landed() == []


def test_a_topic_may_be_used_twice_where_it_is_read_once(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(100))

    def in_two_parts(records: DataFrame) -> DataFrame:
        rows = ids(records)
        return rows.where("id < 50").union(rows.where("id >= 50"))

    run = own.own(spark, change=in_two_parts)
    assert (run.rows, run.told) == (100, "")
    own.assert_exact(100)
