"""A flow into a Delta table of its own, looked at by deltalake: no writer of rows uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from fencepost.sinks.delta import DeltaStore, DeltaTarget
from spark.flows import Flow


class LakeFlow(Flow):
    """The table is a folder of the test's."""

    WRITES = "fencepost.sinks.delta.writing.write"  # what brings rows to the table

    @property
    def path(self) -> str:
        return str(self.folder / f"{self.name}_table")

    def declare(self, **parts: Any) -> Path:
        options = {"path": self.path, **parts.pop("options", {})}
        return super().declare(**{"sink": {"format": "delta", "options": options}, **parts})

    def table(self) -> DeltaTable:
        return DeltaTable(self.path)

    def landed(self, column: str = "id") -> list[Any]:
        try:
            return list(self.table().to_pyarrow_table(columns=[column]).column(column).to_pylist())
        except TableNotFoundError:
            return []

    def rows(self) -> list[dict[str, Any]]:
        return list(self.table().to_pyarrow_table().to_pylist())

    def letters(self) -> list[dict[str, Any]]:
        return list(DeltaTable(f"{self.path}_dead").to_pyarrow_table().to_pylist())

    def delete(self, where: str) -> None:
        """As somebody else."""
        self.table().delete(where)

    def partitioned_by(self) -> list[str]:
        return list(self.table().metadata().partition_columns)

    def store(self) -> DeltaStore:
        return DeltaTarget(self.path).open()

    def positions(self) -> dict[int, int]:
        return {at.partition: position for at, position in self.store().positions(self.name).items()}

    def stored(self) -> list[Any]:
        held = sorted(
            (*at, one.position, one.owner, one.topic_id) for at, one in self.store().stored(self.name).items()
        )
        return [*held, sorted(self.landed())]

    def data_files(self) -> list[Path]:
        """Everything that was written beside the log, committed or not."""
        return [file for file in Path(self.path).rglob("*.parquet") if "_delta_log" not in file.parts]
