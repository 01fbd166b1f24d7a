"""A pipeline from one engine to the other and back."""

from __future__ import annotations

from typing import Any

from spark.flows import Flow

PYTHON: dict[str, Any] = {"engine": "python", "transform": None}


def test_a_pipeline_changes_its_engine_and_goes_on_where_it_was(flow: Flow) -> None:
    same: dict[str, Any] = {"transform": None}
    flow.produce(range(20))
    assert flow.run(**PYTHON).rows == 20
    flow.produce(range(20, 50))
    assert flow.run(**same, engine="spark").rows == 30  # into the same columns
    flow.produce(range(50, 60))
    assert flow.run(**PYTHON).rows == 10
    flow.assert_exact(60)
    rows = flow.sql(f"SELECT id, s, _topic, _partition, _offset, _n FROM {flow.name} ORDER BY id")
    assert rows == [(id_, str(id_), flow.name, id_ % 2, id_ // 2, 0) for id_ in range(60)]
