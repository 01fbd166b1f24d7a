"""The Delta store as the suites drive it, every test with a table of its own; rows are DataFrames of one session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from fencepost.errors import InputCut
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Merge, Mode
from fencepost.sinks.delta import DeltaStore, DeltaTarget
from fencepost.sinks.delta.kind import KIND
from fencepost.sinks.delta.store import DeltaTransaction
from fencepost.sinks.kind import SinkJob
from fencepost.testing.batches import ORDERS


class CountsFrames(DeltaStore):
    """Spark's own failure as the contract has it: in a pipeline the engine does that."""

    def write(self, batch: Batch[Any]) -> Landed:
        with cut_short():
            return super().write(batch)

    @contextmanager
    def transaction(self, batch: Batch[Any]) -> Iterator[DeltaTransaction]:
        with cut_short(), super().transaction(batch) as transaction:
            yield transaction


@contextmanager
def cut_short() -> Iterator[None]:
    from fencepost.engines.spark.failures import SparkFailure

    try:
        yield
    except SparkFailure as failure:
        raise InputCut("the input broke off") from failure


class InDelta:
    """One table in a folder."""

    ROWS = pa.schema(
        [
            ("id", pa.int64()),
            ("_topic", pa.string()),
            ("_partition", pa.int32()),
            ("_offset", pa.int64()),
            ("_n", pa.int32()),
        ]
    )

    def __init__(self, folder: Path, spark: Any = None, mode: Mode = Mode.APPEND) -> None:
        self.path = str(folder / "numbers")
        self.spark = spark
        self.doubles = mode is Mode.APPEND
        DeltaTable.create(self.path, self.ROWS)
        self.target = DeltaTarget(self.path, None if self.doubles else Merge(mode, ("id",)))

    @staticmethod
    @contextmanager
    def session() -> Iterator[Any]:
        """A session as pipelines into such a table have it."""
        from fencepost.engines.spark.session import open_session

        needs = KIND.needs(SinkJob("shop", Guarantee.EXACTLY_ONCE, None))
        with open_session("contract", {"spark.master": "local[2]"}, needs) as spark:
            yield spark

    def open(self) -> DeltaStore:
        return CountsFrames(self.target)

    def rows(self, ids: Sequence[int]) -> Any:
        rows = [(id_, *ORDERS, id_, 0) for id_ in ids]
        return self.spark.createDataFrame(rows, "id long, _topic string, _partition int, _offset long, _n int")

    def cut_rows(self, ids: Sequence[int]) -> Any:
        cut = "id + CAST(raise_error('cut') AS bigint) AS id"
        return self.rows(ids).selectExpr(cut, "_topic", "_partition", "_offset", "_n")

    def landed(self) -> list[int]:
        table = DeltaTable(self.path).to_pyarrow_table(columns=["id"])
        return sorted(table.column("id").to_pylist())
