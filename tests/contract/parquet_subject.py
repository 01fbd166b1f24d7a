"""The Parquet store as the suites drive it: a folder of the test's, positions on the shared brokers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from contract.delta_subject import cut_short
from contract.kafka_topics import KafkaTopics
from fencepost.kafka.errors import Existing
from fencepost.model import Batch, Landed
from fencepost.sinks.parquet.folder import Folder
from fencepost.sinks.parquet.options import ParquetOptions
from fencepost.sinks.parquet.store import ParquetStore, ParquetTarget
from fencepost.testing.batches import ORDERS, PIPELINE, RETURNS


class CountsFrames(ParquetStore):
    """Spark's own failure as the contract has it: in a pipeline the engine does that."""

    def write(self, batch: Batch[Any]) -> Landed:
        with cut_short():
            return super().write(batch)


class InParquet:
    doubles = True

    def __init__(self, servers: str, folder: Path, request: pytest.FixtureRequest, spark: Any = None) -> None:
        topics = KafkaTopics(servers)
        for source in {ORDERS.topic, RETURNS.topic}:
            with suppress(Existing):  # nobody writes to them: only offsets on them are committed
                topics.make(1, source)
        options = ParquetOptions.model_validate({"path": str(folder / "numbers")})
        self.target = ParquetTarget(options, PIPELINE, topics.kafka, prefix=f"c-{uuid4().hex[:12]}-")
        self.spark = spark
        self.stores: list[ParquetStore] = []
        request.addfinalizer(self.close)

    def open(self) -> ParquetStore:
        store = CountsFrames(self.target)
        self.stores.append(store)
        return store

    def rows(self, ids: Sequence[int]) -> Any:
        return self.spark.createDataFrame([(id_,) for id_ in ids], "id long")

    def cut_rows(self, ids: Sequence[int]) -> Any:
        return self.rows(ids).selectExpr("id + CAST(raise_error('cut') AS bigint) AS id")

    def landed(self) -> list[int]:
        folder = Folder(self.target.options)
        return sorted(folder.read(("id",)).column("id").to_pylist()) if folder.holds_files() else []

    def close(self) -> None:
        for store in self.stores:
            store.close()
