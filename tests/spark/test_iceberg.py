"""A pipeline into an Iceberg table: what lands, what is said of it, and what a killed driver leaves."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fencepost.admin.plan import plan_pipeline
from fencepost.admin.status import pipeline_status
from fencepost.errors import PositionLost, Usage
from fencepost.lab.crash import visits
from fencepost.local import Stack
from fencepost.model import Batch, Step, TopicPartition
from fencepost.spec import load
from spark.drivers import pipeline_process
from spark.faults import StopOn
from spark.iceberg_flow import IcebergFlow
from spark.lakes import LakeFlow

FIRST = range(8_000)  # four thousand in each of two partitions: four record batches
LATE = 6_001  # in the last record batch but one of partition 1


@pytest.fixture
def lake(stack: Stack, tmp_path: Path) -> IcebergFlow:
    return IcebergFlow(stack, tmp_path)


def test_records_land_once_with_their_places_and_positions_can_be_set(lake: IcebergFlow) -> None:
    lake.produce(range(100))
    plan = plan_pipeline(load(lake.declare()), offline=False)
    assert (plan.path, plan.target_exists, plan.columns["id"], plan.columns["_offset"]) == (
        "whole",
        False,
        "long",
        "long",
    )
    open_ = Counter[int]()

    def look(step: Step, _batch: Batch[Any]) -> None:
        open_.update([lake.connections()] if step is Step.DELIVERED else [])

    assert lake.run(look, batch={"records": 20}).rows == 100
    lake.assert_exact(100)
    assert open_.total() == 5
    assert len(open_) <= 2, open_  # no batch leaves a connection behind; the watch over the run has one of its own
    lake.produce(range(100, 150))
    assert lake.run().rows == 50
    lake.assert_exact(150)
    table = lake.table()
    assert table is not None
    rows = table.scan().to_arrow().to_pylist()
    assert {(row["_topic"], row["_kafka_partition"], row["_offset"], row["_n"]) for row in rows} == {
        (lake.name, partition, offset, 0) for partition in (0, 1) for offset in range(75)
    }
    status = pipeline_status(load(lake.declare()))
    assert [(one.position, one.lag, one.epoch) for one in status.partitions] == [(75, 0, 2), (75, 0, 2)]

    with closing(lake.store()) as store:  # without Spark
        store.set_positions(lake.name, {TopicPartition(lake.name, 0): 70, TopicPartition(lake.name, 1): 75}, {})
    assert lake.positions() == {0: 70, 1: 75}
    assert lake.run().rows == 5


@pytest.mark.proof
def test_pipelines_of_one_process_may_have_sinks_that_need_other_jars(stack: Stack, tmp_path: Path) -> None:
    """A JVM reads its class path once: the next sink gets another one."""
    flows = [make(stack, tmp_path) for make in (LakeFlow, IcebergFlow)]
    for flow in flows:
        flow.produce(range(10))
        assert flow.run().rows == 10


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_driver_killed_with_half_its_tasks_done_and_again_after_the_commit_loses_and_doubles_nothing(
    lake: IcebergFlow, tmp_path: Path
) -> None:
    lake.produce(FIRST)
    in_task, delivered = tmp_path / "in-task", tmp_path / "delivered"
    spec = lake.declare(transform=StopOn(LATE, in_task).in_file(tmp_path))
    with pipeline_process(spec, "--once") as driver:
        driver.wait_until(lambda: visits(in_task) and lake.data_files(), "a task is done, the other in its rows")
        driver.kill()
    assert (lake.positions(), lake.landed()) == ({0: 0, 1: 0}, [])
    shutil.rmtree(driver.scratch)

    with pipeline_process(spec, "--once", "--crash", "delivered", "1", "stop", str(delivered)) as driver:
        driver.wait_until(lambda: visits(delivered), "all is committed")
        assert driver.news("batch") == []  # and the driver does not know
        driver.kill()
    lake.assert_exact(8_000)
    shutil.rmtree(driver.scratch)

    lake.produce(range(8_000, 8_100))
    assert lake.run(transform=StopOn(LATE, in_task).in_file(tmp_path)).rows == 100
    lake.assert_exact(8_100)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_foreign_commits_compaction_and_expiry_do_not_disturb_it_and_a_rollback_is_told(lake: IcebergFlow) -> None:
    lake.produce(range(100))
    lake.run()
    lake.produce(range(100, 200))
    lake.run()
    lake.maintain(
        "INSERT INTO {table} SELECT -1, 'elsewhere', 0, 0, 0",
        "CALL {catalog}.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
        "CALL {catalog}.system.expire_snapshots(table => '{name}', older_than => now(), retain_last => 1)",
    )
    assert lake.positions() == {0: 100, 1: 100}
    lake.produce(range(200, 250))
    assert lake.run().rows == 50
    assert sorted(lake.landed()) == [-1, *range(250)]

    head = lake.table()
    assert head is not None
    oldest = head.history()[0].snapshot_id
    lake.maintain(f"CALL {{catalog}}.system.rollback_to_snapshot('{{name}}', {oldest})")
    with pytest.raises(PositionLost, match="rolled back"):
        lake.run()
    with closing(lake.store()) as store:
        store.set_positions(lake.name, {TopicPartition(lake.name, 0): 100, TopicPartition(lake.name, 1): 100}, {})
    assert lake.run().rows == 50
    assert sorted(lake.landed()) == [-1, *range(250)]

    lake.maintain(
        "CREATE OR REPLACE TABLE {table} "
        "(id long, _topic string, _kafka_partition int, _offset long, _n int) USING iceberg"
    )
    with pytest.raises(PositionLost, match="replaced"):
        lake.run()


@pytest.mark.parametrize(
    ("spark", "said"),
    [
        ({}, "not declared"),
        (
            {
                "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
                "spark.sql.catalog.lake.type": "hadoop",
                "spark.sql.catalog.lake.warehouse": "/nowhere",
            },
            "two commits of a race can both win",
        ),
    ],
)
def test_a_catalog_that_is_no_fence_is_refused(lake: IcebergFlow, spark: dict[str, str], said: str) -> None:
    spec = lake.declare(sink={"format": "iceberg", "options": {"table": "db.orders"}}, spark=spark)
    with pytest.raises(Usage, match=said):
        plan_pipeline(load(spec), offline=False)
