"""A flow into a folder of Parquet files of its own, looked at by pyarrow: no writer uses it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from fencepost.guarantee import Guarantee
from fencepost.sinks.kind import SinkJob
from fencepost.sinks.parquet.folder import Folder
from fencepost.sinks.parquet.kind import KIND
from fencepost.sinks.parquet.options import ParquetOptions
from fencepost.sinks.parquet.store import ParquetStore
from spark.flows import Flow


class ParquetFlow(Flow):
    """The folder is the test's."""

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}_files"

    def declare(self, **parts: Any) -> Path:
        options = {"path": str(self.path), **parts.pop("options", {})}
        return super().declare(
            **{"guarantee": "at-least-once", "sink": {"format": "parquet", "options": options}, **parts}
        )

    def landed(self, column: str = "id") -> list[Any]:
        folder = Folder(ParquetOptions.model_validate({"path": str(self.path)}))
        return folder.read((column,)).column(column).to_pylist() if folder.holds_files() else []

    def store(self) -> ParquetStore:
        options = ParquetOptions.model_validate({"path": str(self.path)})
        return KIND.ledger(SinkJob(self.name, Guarantee.AT_LEAST_ONCE, options, self.kafka))

    def positions(self) -> dict[int, int]:
        with closing(self.store()) as store:
            return {at.partition: position for at, position in store.positions(self.name).items()}

    def left_over(self) -> list[Path]:
        """Files of stages."""
        return [file for file in self.path.rglob("*.parquet") if "_fencepost" in file.parts]
