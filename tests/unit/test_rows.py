"""Rows know where they came from: topic, partition, offset, and which output of that record."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Poison, Refused
from fencepost.model import TopicPartition
from fencepost.rows import OutputCount, RowShape
from fencepost.transforms import FunctionName

ORDERS = TopicPartition("orders", 2)
OUTPUTS = st.lists(st.integers(0, 3), max_size=20)  # how many rows each record gives


@given(OUTPUTS, st.integers(1, 7))
def test_outputs_are_numbered_per_record_however_the_batches_fall(outputs: list[int], size: int) -> None:
    offsets = [offset for offset, count in enumerate(outputs) for _ in range(count)]
    wanted = [number for count in outputs for number in range(count)]
    count = OutputCount()
    parts = [offsets[start : start + size] for start in range(0, len(offsets), size)]
    found = [number for part in parts for number in count.of(pa.array(part, pa.int64())).to_pylist()]
    assert found == wanted


def test_provenance_is_added_behind_the_transforms_columns() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1, 2], "_from": pa.array([10, 11], pa.int64())})
    (rows,) = RowShape(provenance=True).rows(ORDERS, iter([batch]))
    assert rows.to_pylist() == [
        {"id": 1, "_topic": "orders", "_partition": 2, "_offset": 10, "_n": 0},
        {"id": 2, "_topic": "orders", "_partition": 2, "_offset": 11, "_n": 0},
    ]
    assert RowShape(provenance=True).schema(batch.schema) == rows.schema


def test_without_provenance_only_the_transforms_columns_are_left() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1], "_from": pa.array([10], pa.int64())})
    (rows,) = RowShape(provenance=False).rows(ORDERS, iter([batch]))
    assert rows.to_pylist() == [{"id": 1}]


TRANSFORMS = """
import pyarrow as pa

def keep(batch):
    nested = pa.array([[i] for i in batch.column("id").to_pylist()], pa.list_(pa.int64()))
    columns = [batch.column("id"), nested, batch.column("_from")]
    return pa.RecordBatch.from_arrays(columns, names=["id", "nested", "_from"])

def picky(batch):
    if any(i in (3, 7) for i in batch.column("id").to_pylist()):
        raise ValueError("three or seven")
    return batch

def hopeless(batch):
    if batch.num_rows > 1:
        raise ValueError("only together")
    return batch

def wrong(batch):
    return batch.to_pylist()
"""


@pytest.fixture
def arrow(tmp_path: Path) -> Path:
    (tmp_path / "t.py").write_text(TRANSFORMS)
    return tmp_path


def records(count: int) -> pa.RecordBatch:
    place = pa.array([{"topic": "orders", "partition": 2, "offset": 100 + i} for i in range(count)])
    return pa.RecordBatch.from_arrays([pa.array(range(count), pa.int64()), place], names=["id", "_from"])


def shape(folder: Path, name: str) -> RowShape:
    return RowShape(provenance=True, arrow=FunctionName(f"t.py:{name}", str(folder)))


def test_an_arrow_function_makes_the_rows_and_nested_columns_become_json(arrow: Path) -> None:
    (rows,) = shape(arrow, "keep").rows(ORDERS, iter([records(2)]))
    assert rows.column("nested").to_pylist() == ["[0]", "[1]"]
    assert rows.column("_offset").to_pylist() == [100, 101]
    assert shape(arrow, "keep").schema(records(0).schema) == rows.schema


def test_the_records_on_which_an_arrow_function_fails_are_named(arrow: Path) -> None:
    with pytest.raises(Poison) as poison:
        list(shape(arrow, "picky").rows(ORDERS, iter([records(10)])))
    assert [offset for offset, _ in poison.value.records] == [103, 107]
    assert "three or seven" in poison.value.message


@pytest.mark.parametrize("name", ["hopeless", "wrong"])
def test_a_function_that_is_wrong_by_itself_is_no_records_fault(arrow: Path, name: str) -> None:
    with pytest.raises(Refused) as refused:
        list(shape(arrow, name).rows(ORDERS, iter([records(4)])))
    assert not isinstance(refused.value, Poison)
