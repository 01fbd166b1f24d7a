"""An input that breaks off half way: a function before the sink fails on one record, once.

The end of the rows is then not the end of the span. A writer that takes it for that commits half of it with its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.lab.crash import CrashAction, visit
from fencepost.machine import process
from fencepost.model import Batch, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CUT_AT = 120  # records of the span, more than Spark hands to a function at once
# Few rows at once, and none kept back, so that a part of them is with the writer when the rest is cut off.
ROWS_AT_ONCE = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20",
    "spark.sql.execution.pandas.udf.buffer.size": "256",
}
_PATIENCE = 120.0


@dataclass(frozen=True)
class CutOnce:
    """A transform on Spark: fails on one record of one partition, in its first attempt only."""

    columns: tuple[str, ...]
    partition: int
    witness: Path
    then: Path | None = None  # the next attempt waits until this file is there

    def __call__(self, events: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        def whole(partition: int, offset: int) -> bool:
            if (partition, offset) == (self.partition, CUT_AT):
                visit(
                    self.witness, f"record {offset} of the rows of partition {partition}", 1, CrashAction.FAIL, CUT_AT
                )
                if self.then is not None:
                    process.until(self.then.exists, _PATIENCE)
            return True

        checked = f.udf(whole, "boolean", useArrow=False)
        return events.where(checked(events["_from"]["partition"], events["_from"]["offset"])).select(*self.columns)

    def in_file(self, folder: Path) -> dict[str, str]:
        """The transform of a pipeline that lives in this folder."""
        text = f"from pathlib import PosixPath\nfrom fencepost.lab.pipelines.cut_input import CutOnce\ncut = {self!r}\n"
        (folder / "cut_input.py").write_text(text)
        return {"spark": "cut_input.py:cut"}


@dataclass(frozen=True)
class TakesTheEnd:
    """Takes the proof of a whole input away where it is unpickled: in a worker, before the writer asks for it."""

    partition: int
    delivered: Path  # made when a batch that holds the partition is durable

    def __call__(self, step: Step, batch: Batch[Any]) -> None:
        if step is Step.DELIVERED and any(at.partition == self.partition for at in batch.spans):
            self.delivered.touch()

    def __setstate__(self, state: dict[str, Any]) -> None:
        from fencepost.engines.spark.input_guard import GUARD

        self.__dict__.update(state)
        GUARD.install = lambda: None  # type: ignore[method-assign]
        GUARD.require_complete = lambda: None  # type: ignore[method-assign]
