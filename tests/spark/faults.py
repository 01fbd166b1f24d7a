"""Faults inside a Spark task beyond the lab's crash points. Pickled into the workers, which import this module."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from fencepost.delivery import Observer
from fencepost.lab.crash import CrashAction, MidCopy
from fencepost.machine import process
from fencepost.model import Batch, Step


@dataclass(frozen=True)
class Several:
    """Some observers as one."""

    observers: tuple[Observer, ...]

    def __call__(self, step: Step, batch: Batch[Any]) -> None:
        for see in self.observers:
            see(step, batch)


@dataclass(frozen=True)
class StopOn:
    """A transform of record batches whose process stops, once, when this id comes by: in the middle of the rows."""

    id: int
    witness: Path

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if pc.any(pc.equal(rows.column("id"), self.id)).as_py():
            (rows,) = MidCopy(1, CrashAction.STOP, self.witness).rows([rows])
        return rows.select(["id", "_from"])

    def in_file(self, folder: Path) -> dict[str, str]:
        """The transform of a pipeline that lives in this folder."""
        text = f"from pathlib import PosixPath\nfrom spark.faults import StopOn\nstop = {self!r}\n"
        (folder / "stop_on.py").write_text(text)
        return {"arrow": "stop_on.py:stop"}


@dataclass(frozen=True)
class SortAndStop:
    """A transform on Spark that sorts by id; the task stops, once, when this id comes by: in the middle of its rows."""

    id: int
    witness: Path

    def __call__(self, events: DataFrame) -> DataFrame:
        def checked(id_: int) -> int:
            if id_ == self.id:
                (id_,) = MidCopy(1, CrashAction.STOP, self.witness).rows([id_])
            return id_

        ordered = events.select("id", "_from").orderBy("id")
        return ordered.select(f.udf(checked, "long", useArrow=False)("id").alias("id"), "_from")

    def in_file(self, folder: Path) -> dict[str, str]:
        text = f"from pathlib import PosixPath\nfrom spark.faults import SortAndStop\nstop = {self!r}\n"
        (folder / "sort_and_stop.py").write_text(text)
        return {"spark": "sort_and_stop.py:stop"}


@dataclass(frozen=True)
class FailAfter:
    """A transform on Spark that fails on this id, as soon as somebody left a word in the witness file."""

    id: int
    witness: Path

    def __call__(self, events: DataFrame) -> DataFrame:
        def checked(id_: int) -> int:
            if id_ == self.id:
                process.until(self.witness.exists, 60.0)
                raise ValueError(f"not {id_}")
            return id_

        return events.select(f.udf(checked, "long", useArrow=False)("id").alias("id"), "_from")

    def in_file(self, folder: Path) -> dict[str, str]:
        text = f"from pathlib import PosixPath\nfrom spark.faults import FailAfter\nfail = {self!r}\n"
        (folder / "fail_after.py").write_text(text)
        return {"spark": "fail_after.py:fail"}


@dataclass(frozen=True)
class Unguarded:
    """Takes the input guard away where it is unpickled, which is in a worker, before the writer installs the guard."""

    insists: bool  # is the proof of a whole input still asked for, though nothing gives it?
    delivered: Path | None = None  # made when a batch that holds partition 1 is durable

    def __call__(self, step: Step, batch: Batch[Any]) -> None:
        if self.delivered and step is Step.DELIVERED and any(at.partition == 1 for at in batch.spans):
            self.delivered.touch()

    def __setstate__(self, state: dict[str, Any]) -> None:
        from fencepost.engines.spark.input_guard import GUARD

        self.__dict__.update(state)
        GUARD.install = lambda: None  # type: ignore[method-assign]
        if not self.insists:
            GUARD.require_complete = lambda: None  # type: ignore[method-assign]


@dataclass(frozen=True)
class Noted:
    """Not a fault: which process delivered."""

    witness: Path

    def __call__(self, step: Step, _batch: Batch[Any]) -> None:
        if step is Step.DELIVERED:
            with self.witness.open("a") as lines:
                lines.write(f"{os.getpid()}\n")

    def processes(self) -> list[int]:
        """By the delivery of each partition; forgotten afterwards."""
        found = [int(line) for line in self.witness.read_text().splitlines()] if self.witness.exists() else []
        self.witness.unlink(missing_ok=True)
        return found
