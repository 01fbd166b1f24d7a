"""Faults inside a Spark task that writes to a topic. Pickled into the workers, which import this module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from spark.faults import StopOn


@dataclass(frozen=True)
class StopOnValue(StopOn):
    """The same for records: their value is the id."""

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        made = super().__call__(rows)
        values = pc.cast(made.column("id"), pa.string())
        return pa.RecordBatch.from_arrays([values, made.column("_from")], ["value", "_from"])

    def in_file(self, folder: Path) -> dict[str, str]:
        text = f"from pathlib import PosixPath\nfrom spark.topic_faults import StopOnValue\nstop = {self!r}\n"
        (folder / "stop_on.py").write_text(text)
        return {"arrow": "stop_on.py:stop"}
