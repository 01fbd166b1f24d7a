"""Iceberg tables in a REST catalog: the same proofs, where the server decides what a conflict is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from fencepost.lab.crash import standing
from fencepost.local import Stack
from fencepost.model import TopicPartition
from fencepost.sinks.iceberg.options import IcebergOptions
from spark.drivers import pipeline_process
from spark.iceberg_flow import IcebergFlow
from support.rest_catalog import rest_catalog

pytestmark = [pytest.mark.proof, pytest.mark.timeout(1800)]


class InRest(IcebergFlow):
    uri = ""

    @property
    def options(self) -> dict[str, Any]:
        return {"catalog": "shop", "table": f"db.{self.name}"}

    @property
    def declared(self) -> dict[str, str]:
        ours = "spark.sql.catalog.shop"
        return {ours: "org.apache.iceberg.spark.SparkCatalog", f"{ours}.type": "rest", f"{ours}.uri": self.uri}


@pytest.fixture
def lake(stack: Stack, tmp_path: Path) -> Iterator[InRest]:
    behind = {"catalog": f"rest_{uuid4().hex}", "table": "db.t", "warehouse": str(tmp_path / "warehouse")}
    flow = InRest(stack, tmp_path)
    with rest_catalog(IcebergOptions.model_validate({**behind, "dsn": stack.dsn})) as flow.uri:
        yield flow


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_rows_land_once_beside_others_and_who_was_fenced_publishes_nothing(
    lake: InRest, tmp_path: Path, mode: str
) -> None:
    options: dict[str, Any] = {} if mode == "append" else {"mode": "upsert", "key": ["id"]}
    lake.produce(range(100))
    assert lake.run(options=options).rows == 100
    lake.maintain("INSERT INTO {table} SELECT -1, 'elsewhere', 0, 0, 0")
    lake.produce(range(100, 200))
    witness = tmp_path / "witness"
    with pipeline_process(lake.declare(options=options), "--crash", "written", "1", "stop", str(witness)) as zombie:
        zombie.wait_until(lambda: standing(witness), "it stands still")
        zombie.stop()
        assert lake.run(options=options).rows == 100
        assert (sorted(lake.landed()), lake.branches()) == ([-1, *range(200)], [])
        zombie.go_on()
        assert zombie.ended() == 4, zombie.told()
    assert sorted(lake.landed()) == [-1, *range(200)]
    with closing(lake.store()) as store:  # without Spark
        store.set_positions(lake.name, {TopicPartition(lake.name, 0): 95, TopicPartition(lake.name, 1): 100}, {})
    assert lake.run(options=options).rows == 5
    assert len(lake.landed()) == 201 + (5 if mode == "append" else 0)
