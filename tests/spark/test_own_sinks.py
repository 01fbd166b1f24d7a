"""Streams of one's own into every sink that Spark has: once, though Spark replays a batch after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest
from psycopg.conninfo import conninfo_to_dict

from fencepost.lab.crash import visits
from fencepost.local import Stack
from fencepost.local.postgres import read_password
from spark.drivers import own_process
from spark.iceberg_flow import IcebergFlow
from spark.lakes import LakeFlow
from spark.own import OwnFlow
from spark.parquet_flow import ParquetFlow
from spark.topic_flows import TopicFlow

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]


class IntoDelta(OwnFlow, LakeFlow):
    def sink_part(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"format": "delta", "options": {"path": self.path, **options}}


class IntoIceberg(OwnFlow, IcebergFlow):
    def sink_part(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"format": "iceberg", "options": {**self.options, **options}}


class IntoParquet(OwnFlow, ParquetFlow):
    def sink_part(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"format": "parquet", "options": {"path": str(self.path), **options}}


class IntoTopic(OwnFlow, TopicFlow):
    """Its rows are Kafka's records as they came."""

    def sink_part(self, options: dict[str, Any]) -> dict[str, Any]:
        return TopicFlow.sink_part(self, options)

    def settings(self, **parts: Any) -> dict[str, Any]:
        return super().settings(**{"raw": True, **parts})

    def landed(self, _column: str = "") -> list[Any]:
        return [record["id"] for record in TopicFlow.landed(self)]


@pytest.mark.parametrize("kind", [IntoDelta, IntoIceberg, IntoTopic])
def test_it_lands_once_though_spark_replays_the_batch(stack: Stack, tmp_path: Path, kind: type[OwnFlow]) -> None:
    own = kind(stack, tmp_path)
    own.produce(range(100))
    witness = tmp_path / "delivered"
    with own_process(tmp_path, own.settings(crash=["delivered", 1, "stop", str(witness)])) as driver:
        driver.wait_until(lambda: visits(witness) and own.positions() == {0: 50, 1: 50}, "all of it is committed")
        (java,) = driver.spark()
        assert _password(stack) not in " ".join(psutil.Process(java.pid).cmdline())
        driver.kill()
    own.produce(range(100, 200))
    assert _batches(own) == [(0, 2), (100, 0)]
    own.assert_exact(200)
    assert own.positions() == {0: 100, 1: 100}


def test_files_land_at_least_once(stack: Stack, tmp_path: Path) -> None:
    own = IntoParquet(stack, tmp_path)
    for first in (0, 100):
        own.produce(range(first, first + 100))
        assert _batches(own, guarantee="at-least-once") == [(100, 0)]
    own.assert_exact(200)


def test_an_upsert_by_way_of_a_stage_lands_once(stack: Stack, tmp_path: Path) -> None:
    own = OwnFlow(stack, tmp_path)
    sink = own.sink_part({"mode": "upsert", "key": ["id"]})
    for _again in range(2):
        own.produce(range(100))
        assert _batches(own, sink=sink, wide=True)[-1] == (100, 0)
    assert sorted(own.landed()) == list(range(100))
    assert own.sql(f"SELECT min(_offset) FROM {own.name}") == [(50,)]


def _password(stack: Stack) -> str:
    """Of the database, which is Iceberg's catalog too."""
    return read_password(Path(str(conninfo_to_dict(stack.dsn)["passfile"])))


def _batches(own: OwnFlow, **parts: Any) -> list[tuple[int, int]]:
    """Rows and partitions that say already."""
    with own_process(own.folder, own.settings(**parts)) as driver:
        assert driver.ended() == 0, driver.told()
        return [(batch["rows"], batch["already"]) for batch in driver.news("batch")]
