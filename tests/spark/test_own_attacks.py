"""What people do in a foreachBatch: each lands once, or is refused with what to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from fencepost.admin.positions import carry_out, propose
from fencepost.engines.spark.own_stream import OwnStream
from fencepost.errors import CheckpointMismatch, Fenced, FencepostError, Poison, Refused, Usage
from spark.own import OwnFlow, Run, ids

pytestmark = pytest.mark.proof


def test_two_objects_of_one_name_cannot_share_a_batch(own: OwnFlow, spark: SparkSession) -> None:
    """The second finds the positions where the first has left them, and its rows would be nowhere."""
    own.produce(range(100))
    other = OwnStream(
        {"name": own.name, "guarantee": "exactly-once", "sink": own.sink_part({"table": f"{own.name}_b"})}
    )
    first = own.writer(Run())

    def both(rows: DataFrame, number: int) -> None:
        first(rows, number)
        other(rows, number)

    own.drain(spark, both, Run())
    assert isinstance(other.error, Usage), other.error
    assert "a name" in other.error.remedy


def test_an_added_partition_is_not_begun_behind_its_first_record(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(100))
    assert own.own(spark).rows == 100
    own.add_partitions(3)
    own.produce(range(101, 200, 3))  # nobody has read these
    writer, lost = own.writer(Run()), own.folder / "lost"
    late = f'{{"{own.name}":{{"0":50,"1":50,"2":33}}}}'  # what startingOffsets=latest says at this moment
    own.produce(range(201, 230))
    own.drain(spark, writer, Run(), checkpoint=lost, startingOffsets=late)
    assert isinstance(writer.error, CheckpointMismatch), writer.error
    assert f"{own.name}/2 begins at 0" in writer.error.message
    again = own.folder / "again"
    assert own.own(spark, checkpoint=again, source={"startingOffsets": own.starting_offsets()}).told == ""
    own.assert_exact(162)


def test_a_batch_that_was_not_given_to_it_is_named(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(12))
    run = Run()
    writer = own.writer(run)

    def careful(rows: DataFrame, number: int) -> None:
        if not rows.isEmpty():
            writer(rows, number)

    def some(records: DataFrame) -> DataFrame:
        return ids(records).where("id < 2 OR id >= 8")

    own.drain(spark, careful, run, some, maxOffsetsPerTrigger="4")
    assert isinstance(writer.error, Usage), writer.error
    assert "isEmpty" in writer.error.remedy


def test_whoever_tries_again_hears_why_once_more(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(10))
    writer = own.writer(Run())

    def stubborn(rows: DataFrame, number: int) -> None:
        with suppress(FencepostError):
            writer(rows, number)
        writer(rows, number)

    own.drain(spark, stubborn, Run(), lambda records: ids(records).withColumn("x", f.expr("1 / (id - 3)")))
    assert isinstance(writer.error, Refused), writer.error


def test_who_took_the_positions_over_is_said_to_a_query_that_was_idle(own: OwnFlow, spark: SparkSession) -> None:
    """A takeover ends its connections, so the first thing that it hears is that nobody answers."""
    own.produce(range(100))
    writer = own.writer(Run())
    with own.going_on(spark, writer) as query:
        query.processAllAvailable()
        spec = writer.declared((own.name,), own.kafka)
        carry_out(spec, propose(spec, "earliest"))
        own.produce(range(100, 110))
        with pytest.raises(StreamingQueryException):
            query.processAllAvailable()
    assert isinstance(writer.error, Fenced), writer.error
    assert sorted(own.landed()) == list(range(100))


MADE_ANEW: dict[str, Callable[[DataFrame], DataFrame]] = {
    "list": lambda rows: rows.sparkSession.createDataFrame(rows.collect(), rows.schema),
    "pandas": lambda rows: rows.sparkSession.createDataFrame(rows.toPandas(), rows.schema),
    "checkpoint": lambda rows: rows.localCheckpoint(),
}


@pytest.mark.parametrize("how", MADE_ANEW)
def test_rows_that_are_made_anew_land_once(own: OwnFlow, spark: SparkSession, how: str) -> None:
    own.produce(range(100))
    run = Run()
    writer = own.writer(run)
    own.drain(spark, lambda rows, number: writer(MADE_ANEW[how](rows), number), run)
    assert writer.error is None
    assert run.batches[0].staged
    own.assert_exact(100)


def test_remedies_are_for_streams(own: OwnFlow, spark: SparkSession) -> None:
    own.produce(range(10))
    bad = own.own(spark, lambda records: ids(records).withColumn("x", f.concat(f.lit("a"), f.chr(f.lit(0)))))
    assert isinstance(bad.error, Poison), bad.error
    assert "on_error" not in bad.error.remedy
    untyped = own.own(spark, lambda records: ids(records).withColumn("x", f.lit(None)))
    assert isinstance(untyped.error, Usage), untyped.error
    assert "CAST(x AS" in untyped.error.remedy
