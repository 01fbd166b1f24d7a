"""Streams that keep state: rows are those of the model, whatever dies or stands still, and whenever."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.request import of_pipeline
from fencepost.errors import Refused, Usage
from fencepost.lab.crash import Crash, CrashAction, CrashPoint, visits
from fencepost.local import Stack
from fencepost.model import Step
from fencepost.spec import load
from spark.flows import RETRIES
from spark.streams import SCHEMA, SUMS, FirstsFlow, PairsFlow, StateFlow, UpdatedFlow, orders, source_part, spread


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> StateFlow:
    return StateFlow(stack, tmp_path)


def test_windows_are_those_of_the_model_over_several_runs(flow: StateFlow) -> None:
    flow.send(spread(range(100)))
    run = flow.run()
    assert flow.assert_modelled() == run.rows > 10
    assert run.batches()[-1].records == 0  # without records, because the watermark moved
    first = flow.last()
    flow.send(spread(range(100, 200)))
    assert flow.run().rows
    assert flow.last()[0] > first[0]
    assert flow.assert_modelled() > run.rows
    assert audit(of_pipeline(load(flow.declare()))).verdict is Verdict.PARTLY  # rows know no record


@pytest.mark.proof
def test_a_window_that_grows_has_one_row_and_is_updated(stack: Stack, tmp_path: Path) -> None:
    flow = UpdatedFlow(stack, tmp_path)
    flow.send(spread(range(100)))
    flow.run()
    open_ = flow.assert_modelled()
    flow.send(spread(range(100, 200)))
    flow.run()
    assert flow.assert_modelled() > open_ > 10
    assert audit(of_pipeline(load(flow.declare()))).verdict is Verdict.INCONCLUSIVE


@pytest.mark.proof
def test_the_first_of_a_key_lands_and_the_next_one_when_it_is_forgotten(stack: Stack, tmp_path: Path) -> None:
    flow = FirstsFlow(stack, tmp_path)
    for begin in range(0, 300, 100):
        flow.send(spread(range(begin, begin + 100), users=20))
        flow.run()
        assert flow.assert_modelled() > 20
    assert len({user for _, user in flow.rows()}) == 20


@pytest.mark.proof
def test_orders_are_joined_with_payments_and_those_without_come_when_their_time_is_over(
    stack: Stack, tmp_path: Path
) -> None:
    flow = PairsFlow(stack, tmp_path)
    for begin in range(0, 120, 60):
        flow.send(orders(range(begin, begin + 60)))
        flow.run()
        assert flow.assert_modelled() > 40
    assert sum(payment is None for _, payment in flow.rows()) > 10


ROCKS = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider"
}
CHANGELOG = {**ROCKS, "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}


@pytest.mark.proof
@pytest.mark.parametrize("provider", [ROCKS, CHANGELOG], ids=["rocksdb", "changelog"])
def test_state_in_rocksdb_is_taken_over_too(flow: StateFlow, provider: dict[str, str]) -> None:
    for begin in range(0, 300, 100):
        flow.send(spread(range(begin, begin + 100)))
        flow.run(spark=provider)
        flow.assert_modelled()
    assert len(flow.rows()) > 20


COUNTED = """
import pandas as pd
from pyspark.sql.streaming.state import GroupStateTimeout


def counted(key, batches, state):
    seen = (state.get[0] if state.exists else 0) + sum(len(batch) for batch in batches)
    state.update((seen,))
    yield pd.DataFrame({"user": [key[0]], "n": [seen]})


def made(events):
    return events.groupBy("user").applyInPandasWithState(
        counted, "user string, n long", "n long", "update", GroupStateTimeout.NoTimeout
    )
"""


@pytest.mark.proof
def test_a_function_with_state_of_its_own_is_refused(flow: StateFlow) -> None:
    with pytest.raises(Usage, match="were not tried out"):
        flow.run(code=COUNTED, more={"output_mode": "update"})


def test_a_task_that_is_tried_again_leaves_the_state_of_the_rows_that_count(flow: StateFlow) -> None:
    """The first attempt wrote its state before it failed: the second one's takes its place."""
    witness = flow.folder / "witness"
    flow.send(spread(range(100)))
    failing = CrashPoint(Step.STAGED, flow.partition(0), CrashAction.FAIL, witness, time=6)  # in the second batch
    flow.run(see=failing, spark=RETRIES)
    assert flow.assert_modelled() > 10
    assert [visit.acted for visit in visits(witness)].count(True) == 1
    assert not list(flow.root.rglob("*.tmp"))


@pytest.mark.proof
def test_partitions_that_are_added_are_read_from_their_start(flow: StateFlow) -> None:
    flow.send(spread(range(100)))
    flow.run()
    flow.add_partitions(3)
    flow.send(spread(range(100, 200)))
    flow.run()
    assert flow.assert_modelled() > 20
    assert {at for at, end in flow.positions().items() if end} == {0, 1, 2}


OTHER = """
from pyspark.sql import functions as f


def made(events):
    late = events.withWatermark("at", "5 seconds")
    sums = late.groupBy(f.window("at", "10 seconds"), "user", "id").agg(f.sum("v").alias("v"), f.max("v").alias("n"))
    return sums.select(f.col("window.start").alias("start"), "user", "n", "v")
"""


@pytest.mark.proof
def test_a_transform_that_does_not_fit_the_state_is_refused_with_what_spark_says(flow: StateFlow) -> None:
    flow.send(spread(range(100)))
    flow.run()
    before = (flow.rows(), flow.last()[0], flow.positions())
    flow.send(spread(range(100, 150)))
    with pytest.raises(Refused, match="Spark refused the batch") as refused:
        flow.run(code=OTHER)
    assert "build the state anew (docs/state.md)" in refused.value.remedy
    assert (flow.rows(), flow.last()[0], flow.positions()) == before
    flow.run()
    flow.assert_modelled()


@pytest.mark.proof
@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_the_other_guarantees_double_or_lose_a_batch_and_keep_the_state(
    flow: StateFlow, guarantee: str, first: bool
) -> None:
    """The driver fails between its two steps."""
    batch = 2 if first else 4  # of the run that fails: the first that has rows, or a later one
    flow.send(spread(range(200)))
    step = Step.WRITTEN if guarantee == "at-least-once" else Step.ADVANCED
    crash = CrashPoint(step, flow.partition(1), CrashAction.FAIL, flow.folder / "witness", time=batch)
    with pytest.raises(Crash):
        flow.run(see=crash, guarantee=guarantee)
    flow.run(guarantee=guarantee)
    flow.send(spread(range(200, 300)))
    flow.run(guarantee=guarantee)
    found, expected = Counter(flow.rows()), Counter(flow.expected())
    if guarantee == "at-least-once":
        assert set(found) == set(expected)
        assert 0 < sum((found - expected).values()) < len(expected)
    else:
        assert not found - expected
        assert 0 < sum((expected - found).values()) < len(expected)


@pytest.mark.proof
def test_a_first_batch_that_was_written_and_not_noted_may_come_again_at_least_once(flow: StateFlow) -> None:
    """There are rows, and nothing has landed: but it was noted that the stream begins."""
    parts: dict[str, Any] = {"guarantee": "at-least-once", "more": {"output_mode": "update"}}
    flow.send(spread(range(20)))
    crash = CrashPoint(Step.WRITTEN, flow.partition(1), CrashAction.FAIL, flow.folder / "witness")
    with pytest.raises(Crash):
        flow.run(see=crash, **parts)
    assert flow.rows()
    flow.run(**parts)
    assert set(Counter(flow.rows()).values()) == {2}


LENIENT = """
from pyspark.sql import functions as f


def summed(events):
    told = events.select(f.from_json("value", {schema!r}).alias("told")).where("told.id IS NOT NULL")
    return told.select("told.*")
"""


@pytest.mark.proof
def test_a_bad_record_stops_the_stream_with_its_place_and_a_lenient_transform_goes_on(flow: StateFlow) -> None:
    flow.send(spread(range(60)))
    flow.run()
    flow.produce([61], {61: b"not json"})
    flow.send(spread(range(70, 120)))
    with pytest.raises(Refused, match=f"{flow.partition(1)} offset 30: not JSON of the schema: not json") as refused:
        flow.run()
    assert "value: string" in refused.value.remedy
    source = {**source_part(flow.name), "value": "string", "schema": None}
    flow.run(code=LENIENT.format(schema=SCHEMA) + SUMS, source={key: one for key, one in source.items() if one})
    flow.bad = {(1, 30)}
    assert flow.assert_modelled() > 10
