"""A stream of one's own: every batch lands once, whatever its checkpoint says, or is refused."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from fencepost.engines.spark.own_stream import OwnStream
from fencepost.errors import CheckpointMismatch, Fenced, FencepostError, Refused, UnsupportedGuarantee, Usage
from spark.own import Change, OwnFlow, Run, ids


def test_a_stream_lands_once_goes_on_and_is_fenced_by_its_successor(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(100))
    first = Run()
    writer = own.writer(first)
    own.drain(spark, writer, first)
    assert (first.rows, first.told) == (100, "")
    assert own.positions() == {0: 50, 1: 50}
    assert sorted(own.sql(f"SELECT _topic, _partition, _offset FROM {own.name} WHERE id = 99")) == [(own.name, 1, 49)]

    own.produce(range(100, 200))
    assert own.own(spark).rows == 100
    own.produce(range(200, 300))
    fenced = own.drain(spark, writer, Run())
    assert isinstance(fenced.error, Fenced), fenced.told
    assert type(fenced.error).__name__ in fenced.told
    assert len(own.landed()) == 200
    assert (
        own.own(spark, checkpoint=own.folder / "another", source={"startingOffsets": own.starting_offsets()}).rows
        == 100
    )
    own.assert_exact(300)


def test_a_batch_that_spark_replays_says_already(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(100))
    assert own.own(spark).rows == 100
    (own.checkpoint / "commits" / "0").unlink()  # as if it had been killed before Spark wrote that it is done
    (own.checkpoint / "commits" / ".0.crc").unlink()
    again = own.own(spark)
    assert (again.rows, again.already, again.told) == (0, 2, "")
    own.assert_exact(100)


def test_a_checkpoint_that_does_not_fit_is_refused(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(100))
    assert own.own(spark).rows == 100
    stored = own.stored()
    own.produce(range(100, 200))
    refused = own.own(spark, checkpoint=own.folder / "lost")
    assert isinstance(refused.error, CheckpointMismatch), refused.told
    assert "the stored position is 50, and the batch is [0, 100)" in refused.error.message
    assert own.stored() == stored  # nothing was taken from the owner

    shutil.rmtree(own.folder / "lost")
    ahead = own.own(
        spark, checkpoint=own.folder / "lost", source={"startingOffsets": f'{{"{own.name}":{{"0":60,"1":60}}}}'}
    )
    assert isinstance(ahead.error, CheckpointMismatch), ahead.told
    assert own.stored() == stored
    shutil.rmtree(own.folder / "lost")
    assert (
        own.own(spark, checkpoint=own.folder / "lost", source={"startingOffsets": own.starting_offsets()}).rows == 100
    )
    own.assert_exact(200)


def test_what_breaks_the_guarantee_is_found_in_source_plan_and_session(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(10))
    uncommitted = own.own(spark, source={"kafka.isolation.level": "read_uncommitted"})
    assert isinstance(uncommitted.error, UnsupportedGuarantee), uncommitted.told
    grouped = own.own(spark, lambda records: ids(records).dropDuplicates(["id"]))
    assert isinstance(grouped.error, Usage), grouped.told
    assert "Deduplicate" in grouped.error.message
    lenient = spark.newSession()
    lenient.conf.set("spark.sql.ansi.enabled", "false")
    lax = own.own(lenient)
    assert isinstance(lax.error, Usage), lax.told
    assert "spark.sql.ansi.enabled" in lax.error.message
    assert own.positions() == {}
    assert own.landed() == []


@pytest.mark.proof
@pytest.mark.parametrize(
    "option", [{"minPartitions": "8"}, {"maxRecordsPerPartition": "2"}, {"failOnDataLoss": "false"}], ids=str
)
def test_options_of_the_source_are_refused(own: OwnFlow, spark: SparkSession, option: dict[str, str]) -> None:
    own.produce(range(10))
    refused = own.own(spark, source=option)
    assert isinstance(refused.error, UnsupportedGuarantee), refused.told
    assert next(iter(option)) in refused.error.message
    assert own.positions() == {}


@pytest.mark.proof
@pytest.mark.parametrize("state", ["window", "limit", "join"])
def test_streams_that_keep_state_are_refused(own: OwnFlow, spark: SparkSession, state: str) -> None:
    own.produce(range(10))
    kept: dict[str, Change] = {
        "window": lambda records: (
            records.withWatermark("timestamp", "1 minute").groupBy(f.window("timestamp", "1 minute")).count()
        ),
        "limit": lambda records: ids(records).limit(5),
        "join": lambda records: ids(records).join(own.records(spark).select("offset"), "offset"),
    }
    refused = own.own(spark, kept[state])
    assert isinstance(refused.error, Usage), refused.told
    assert own.positions() == {}


@pytest.mark.proof
def test_a_source_that_is_not_kafka_is_refused_beside_kafka_too(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(10))
    rates = spark.readStream.format("rate").option("rowsPerSecond", 10).load().select(f.col("value").alias("id"))
    refused = own.own(spark, lambda records: ids(records).select("id").union(rates))
    assert isinstance(refused.error, Usage), refused.told
    assert own.positions() == {}


@pytest.mark.proof
def test_a_session_without_what_a_sink_needs_is_refused_by_name(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(10))
    run = Run()
    sink = {"format": "delta", "options": {"path": str(own.folder / "table")}}
    parts = {"name": own.name, "guarantee": "exactly-once", "sink": sink}
    refused = own.drain(spark, OwnStream(parts), run)
    assert isinstance(refused.error, Usage), refused.told
    assert "spark.sql.extensions" in refused.error.message


@pytest.mark.proof
def test_a_batch_that_nobody_streams_is_refused(own: OwnFlow, spark: SparkSession) -> None:
    with pytest.raises(Usage):
        own.writer(Run())(spark.range(3), 0)


@pytest.mark.proof
@pytest.mark.parametrize("small", [0, 5_000])
@pytest.mark.parametrize("shape", ["narrow", "filtered", "several", "repartitioned", "joined", "union"])
def test_whatever_its_author_does_to_the_rows_they_land_once(
    own: OwnFlow, spark: SparkSession, shape: str, small: int
) -> None:
    twos = spark.range(2).withColumnRenamed("id", "n")
    shapes: dict[str, tuple[Change, int]] = {
        "narrow": (ids, 1),
        "filtered": (lambda records: ids(records).where("id % 2 = 0"), 1),
        "several": (lambda records: ids(records).withColumn("n", f.explode(f.array(f.lit(0), f.lit(1)))), 2),
        "repartitioned": (lambda records: ids(records).repartition(3), 1),
        "joined": (lambda records: ids(records).join(f.broadcast(twos)), 2),
        "union": (lambda records: ids(records).union(ids(records)), 2),
    }
    change, times = shapes[shape]
    own.produce(range(100))
    first = own.own(spark, change, small=small)
    assert first.told == ""
    own.produce(range(100, 200))
    own.own(spark, change, small=small)
    (own.checkpoint / "commits" / "1").unlink()
    (own.checkpoint / "commits" / ".1.crc").unlink()
    assert own.own(spark, change, small=small).already == 2
    expected = [id_ for id_ in range(200) if shape != "filtered" or id_ % 2 == 0]
    assert sorted(own.landed()) == sorted(expected * times)
    numbers = own.sql(f"SELECT count(DISTINCT (_partition, _offset, _n)) FROM {own.name}")
    assert numbers == [(len(expected) * times,)]


@pytest.mark.proof
def test_partitions_that_are_added_while_the_stream_stands_are_taken_over(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(100))
    assert own.own(spark).rows == 100
    own.add_partitions(3)
    own.produce(range(99, 201))
    assert own.own(spark).rows == 102
    assert set(own.positions()) == {0, 1, 2}


@pytest.mark.proof
def test_rows_without_an_origin_land_once_too(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(100))
    assert own.own(spark, lambda records: ids(records).select("id")).rows == 100
    own.assert_exact(100)
    assert own.sql(f"SELECT * FROM {own.name} LIMIT 1")[0] == (own.landed()[0],)


@pytest.mark.proof
def test_a_batch_that_is_written_in_two_parts_is_refused(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(100))
    run = Run()
    writer = own.writer(run)

    def halves(rows: DataFrame, number: int) -> None:
        writer(rows.where("id < 50"), number)
        writer(rows.where("id >= 50"), number)

    own.drain(spark, halves, run)
    assert isinstance(writer.error, Usage), run.told
    assert "written twice" in writer.error.message


@pytest.mark.proof
def test_an_error_that_somebody_swallowed_is_raised_again(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(100))
    own.sql(f"CREATE TABLE {own.name} (id bigint CHECK (id < 10))")
    run = Run()
    writer = own.writer(run)

    def careless(rows: DataFrame, number: int) -> None:
        with suppress(FencepostError):
            writer(rows, number)
        if number:
            writer(rows, number + 1)

    own.drain(spark, careless, run, lambda records: ids(records).select("id"), maxOffsetsPerTrigger="50")
    assert isinstance(writer.error, Refused), run.told
    assert own.landed() == []


@pytest.mark.proof
def test_a_query_that_is_started_again_with_the_same_object_goes_on(own: OwnFlow, spark: SparkSession) -> None:
    run = Run()
    writer = own.writer(run)
    for first in (0, 100):
        own.produce(range(first, first + 100))
        assert own.drain(spark, writer, run).told == ""
    assert run.rows == 200
    own.assert_exact(200)


@pytest.mark.proof
def test_partitions_that_are_added_while_it_runs_are_taken_over(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(100))
    with own.going_on(spark, own.writer(Run())) as query:
        query.processAllAvailable()
        own.add_partitions(3)
        own.produce(range(102, 201))
        query.processAllAvailable()
    assert set(own.positions()) == {0, 1, 2}
    own.assert_exact(199)


@pytest.mark.proof
def test_one_object_is_for_one_query(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(100))
    writer = own.writer(Run())
    with own.going_on(spark, writer) as first:
        first.processAllAvailable()
        other = own.drain(spark, writer, Run(), checkpoint=own.folder / "other")  # reads what has landed
        assert other.error is None
        own.produce(range(100, 200))
        with pytest.raises(StreamingQueryException):
            first.processAllAvailable()
    assert isinstance(writer.error, Usage)
    assert sorted(own.landed()) == list(range(100))


@pytest.mark.proof
def test_a_column_of_ones_own_says_where_rows_came_from_and_what_is_deleted(own: OwnFlow, spark: SparkSession) -> None:
    id_, mark = f.col("key").cast("string").cast("long").alias("id"), f.col("value").isNull().alias("tombstone")
    deleting: dict[str, Any] = {"mode": "upsert", "key": ["id"], "tombstones": "delete"}

    def marked(records: DataFrame) -> DataFrame:
        return records.select(id_, f.struct("topic", "partition", "offset", mark).alias("_from"))

    own.produce(range(100))
    unmarked = own.own(spark, lambda records: records.select(id_, "topic", "partition", "offset"), **deleting)
    assert isinstance(unmarked.error, Usage), unmarked.told
    assert own.own(spark, marked, **deleting).told == ""
    own.remove(range(50))
    assert own.own(spark, marked, **deleting).told == ""
    assert sorted(own.landed()) == list(range(50, 100))


@pytest.mark.proof
def test_at_least_once_a_batch_that_was_written_and_not_counted_goes_without_its_rows(
    own: OwnFlow, spark: SparkSession
) -> None:
    """Where a unique index takes each row only once, the repetition must not stand in the way of the stream."""
    own.produce(range(100))
    assert own.own(spark, guarantee="at-least-once").rows == 100
    own.sql(f"CREATE UNIQUE INDEX ON {own.name} (_topic, _partition, _offset, _n)")
    own.sql("UPDATE fencepost.positions SET position = 0 WHERE pipeline = %s", own.name)
    own.produce(range(100, 200))
    again = own.folder / "again"
    repeated = own.own(spark, checkpoint=again, guarantee="at-least-once")
    assert repeated.told == ""
    own.assert_exact(200)
