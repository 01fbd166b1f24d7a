"""What `plan` keeps of a transform that was tried on Spark, and what it tries each time."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.admin.plan import plan_pipeline
from fencepost.spec import load
from spark.flows import Flow


def test_the_next_plan_of_the_same_file_needs_no_spark_unless_a_table_has_a_say(flow: Flow, tmp_path: Path) -> None:
    spec = load(flow.declare())
    first, second = plan_pipeline(spec, offline=True), plan_pipeline(spec, offline=True)
    assert first.transform_tried is None
    assert second.transform_tried is not None
    assert (second.columns, second.path, second.settings) == (first.columns, first.path, first.settings)
    assert plan_pipeline(spec, offline=True, again=True).transform_tried is None

    pq.write_table(pa.table({"id": [1], "name": ["one"]}), tmp_path / "names.parquet")
    joined = f"SELECT id, name, _from FROM events JOIN parquet.`{tmp_path}/names.parquet` USING (id)"
    spec = load(flow.declare(transform={"sql": joined}))
    assert [plan_pipeline(spec, offline=True).transform_tried for _ in range(2)] == [None, None]
