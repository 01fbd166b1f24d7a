"""Transforms that fail half way through a partition, for pipeline files to name. Workers import this module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from fencepost.lab.crash import CrashAction, MidCopy
from fencepost.machine import process

PAIR = pa.struct({"a": pa.int64(), "b": pa.string()})
BAD = 30_001  # in partition 1 of two, at offset 15,000


def function_fails(events: DataFrame) -> DataFrame:
    """A Python function of one row that cannot take one of them."""

    def checked(id_: int) -> int:
        if id_ == BAD:
            raise ValueError(f"not {BAD}")
        return id_

    return events.select(f.udf(checked, "long", useArrow=False)("id").alias("id"), "_from")


def cast_fails_before_a_python_function(events: DataFrame) -> DataFrame:
    """A function of record batches whose own input is cut: it sees an end, and hands that on."""

    def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    cast = events.select(f.col("s").cast("long").alias("id"), "_from")
    return cast.mapInArrow(unchanged, cast.schema)  # type: ignore[arg-type]


@dataclass(frozen=True)
class FailsOnce:
    """A Python function of one row that fails in its first attempt only."""

    witness: Path
    then: Path | None = None  # the next attempt waits until this file is there

    def __call__(self, events: DataFrame) -> DataFrame:
        def checked(id_: int) -> int:
            if id_ == BAD:
                (id_,) = MidCopy(1, CrashAction.FAIL, self.witness).rows([id_])
                if self.then is not None:
                    process.until(self.then.exists, 120.0)
            return id_

        return events.select(f.udf(checked, "long", useArrow=False)("id").alias("id"), "_from")

    def in_file(self, folder: Path) -> dict[str, str]:
        """The transform of a pipeline that lives in this folder."""
        text = f"from pathlib import PosixPath\nfrom spark.transforms import FailsOnce\nonce = {self!r}\n"
        (folder / "fails_once.py").write_text(text)
        return {"spark": "fails_once.py:once"}


def three_of_each(events: DataFrame) -> DataFrame:
    """Three rows of each event."""
    return events.select("id", f.explode(f.array(*map(f.lit, "abc"))).alias("part"), "_from")


def even_ones(events: pa.RecordBatch) -> pa.RecordBatch:
    """Some rows dropped, a column made, and another that is nested."""
    ids = events.column("id")
    made = {
        "id": ids,
        "doubled": pc.multiply(ids, 2),
        "pair": pa.array([{"a": id_, "b": str(id_)} for id_ in ids.to_pylist()], PAIR),
        "_from": events.column("_from"),
    }
    return pa.RecordBatch.from_pydict(made).filter(pc.equal(pc.bit_wise_and(ids, 1), 0))


def either_way(events: pa.RecordBatch) -> pa.RecordBatch:
    """Two columns of one type, which change places."""
    ids = events.column("id")
    made = {"up": ids, "down": pc.negate(ids), "_from": events.column("_from")}
    swapped = len(ids) and ids[0].as_py() >= 2_000
    return pa.RecordBatch.from_pydict({name: made[name] for name in (("down", "up", "_from") if swapped else made)})


def half(events: pa.RecordBatch) -> pa.RecordBatch:
    """One of the columns only where there are no rows."""
    made = either_way(events)
    return made.drop_columns(["down"]) if made.num_rows else made


def not_seven(events: pa.RecordBatch) -> pa.RecordBatch:
    """A function that cannot take one of the records."""
    if 7 in events.column("id").to_pylist():
        raise ValueError("seven")
    return events.select(["id", "_from"])


def with_header(events: DataFrame) -> DataFrame:
    return events.select("id", events.headers[0]["value"].cast("string").alias("n"), "event_id", "_from")


def with_header_of_each(events: pa.RecordBatch) -> pa.RecordBatch:
    values = [headers[0]["value"].decode() for headers in events.column("headers").to_pylist()]
    made = {"id": events.column("id"), "n": pa.array(values, pa.string())}
    return pa.RecordBatch.from_pydict(made | {name: events.column(name) for name in ("event_id", "_from")})
