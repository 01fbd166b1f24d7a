"""Rows know where they came from: topic, partition, offset, and which output of that record."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import Poison, Refused
from fencepost.model import TopicPartition
from fencepost.rows.functions import FunctionName
from fencepost.rows.shape import MOST_ASIDE, MOST_POISON, OutputCount, RowShape

ORDERS = TopicPartition("orders", 2)
OUTPUTS = st.lists(st.integers(0, 3), max_size=20)  # how many rows each record gives
N, S = pa.array([1, 2], pa.int64()), pa.array(["a", "b"])


@settings(deadline=None)
@given(OUTPUTS, st.integers(1, 7))
def test_outputs_are_numbered_per_record_however_the_batches_fall(outputs: list[int], size: int) -> None:
    offsets = [offset for offset, count in enumerate(outputs) for _ in range(count)]
    wanted = [number for count in outputs for number in range(count)]
    count = OutputCount()
    parts = [offsets[start : start + size] for start in range(0, len(offsets), size)]
    found = [number for part in parts for number in count.of(pa.array(part, pa.int64())).to_pylist()]
    assert found == wanted


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=10), max_size=4))
def test_outputs_of_one_batch_are_numbered_in_whatever_order_they_stand(parts: list[list[int]]) -> None:
    """A function that puts two frames together gives each record's second row behind everybody's first."""
    count = OutputCount()
    for number, part in enumerate(parts):
        offsets = [10 * number + offset for offset in part]
        found = list(zip(offsets, count.of(pa.array(offsets, pa.int64())).to_pylist(), strict=True))
        assert sorted(found) == [(one, n) for one in sorted(set(offsets)) for n in range(offsets.count(one))]


class Odd:
    """A function that gives other columns when there are rows."""

    def __init__(self, tried: pa.Schema, names: list[str], columns: list[pa.Array]) -> None:
        self._tried, self._names, self._columns = tried, names, columns

    def load(self) -> Odd:
        return self

    def __str__(self) -> str:
        return "odd.py:f"

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [column.take(batch.column("id")) for column in self._columns]
        if batch.num_rows == 0:
            names, columns = self._tried.names, [pa.array([], kind) for kind in self._tried.types]
        else:
            names = self._names
        return pa.RecordBatch.from_arrays([*columns, batch.column("_from")], names=[*names, "_from"])


def odd(tried: pa.DataType, names: list[str], columns: list[pa.Array]) -> pa.RecordBatch:
    """What comes of two records where `n`, of this type, and `s`, a text, were made of none."""
    function = cast(FunctionName, Odd(pa.schema({"n": tried, "s": pa.string()}), names, columns))
    shape = RowShape(provenance=True, arrow=function).tried(records(0).schema)
    (rows,) = shape.rows(ORDERS, iter([records(2)]))
    assert rows.schema.equals(shape.schema(records(0).schema))
    return rows


def test_columns_are_taken_by_their_names_in_whatever_order_they_come() -> None:
    rows = odd(pa.int64(), ["s", "n"], [S, N])
    assert rows.select(["n", "s"]).to_pydict() == {"n": [1, 2], "s": ["a", "b"]}


@pytest.mark.parametrize(
    ("names", "columns", "problem"),
    [
        (["n"], [N], "no column 's'"),
        (["n", "s", "x"], [N, S, S], "a column 'x'"),
        (["n", "s", "s"], [N, S, S], "column 's' twice"),
        (["n", "s"], [S, S], "'n' as string"),
        (["n", "s"], [N, N], "'s' as int64"),
        (["n", "s"], [N, pa.array([["a"], ["b"]])], "'s' as JSON"),
        (["n", "s"], [pa.array([True, False]), S], "'n' as bool"),
    ],
)  # fmt: skip
def test_a_batch_with_other_columns_than_the_transform_was_tried_with_is_refused(
    names: list[str], columns: list[pa.Array], problem: str
) -> None:
    with pytest.raises(Refused, match=problem) as refused:
        odd(pa.int64(), names, columns)
    assert not isinstance(refused.value, Poison)


@pytest.mark.parametrize(
    ("tried", "given", "there"),
    [
        (pa.int64(), pa.array([None, None]), [None, None]),  # as pyarrow makes it of a list without a value
        (pa.int64(), pa.array([7, None], pa.int16()), [7, None]),
        (pa.int64(), pa.array([7.0, None]), [7, None]),
        (pa.float64(), pa.array([7, 8]), [7.0, 8.0]),
        (pa.decimal128(38, 2), pa.array([7, 8]), [Decimal(7), Decimal(8)]),
        (pa.decimal128(9, 2), pa.array([Decimal("7.00000"), None]), [Decimal(7), None]),
        (pa.string(), pa.array(["x", "y"]).dictionary_encode(), ["x", "y"]),
        (pa.string(), pa.array(["x", "y"], pa.large_string()), ["x", "y"]),
        (pa.timestamp("us"), pa.array([1, 2], pa.timestamp("ms")), [datetime(1970, 1, 1, 0, 0, 0, 1000 * i) for i in (1, 2)]),  # noqa: DTZ001, E501
    ],
    ids=str,
)  # fmt: skip
def test_another_type_that_holds_the_same_values_is_the_same_column(
    tried: pa.DataType, given: pa.Array, there: list[object]
) -> None:
    assert odd(tried, ["n", "s"], [given, S]).column("n").to_pylist() == there


@pytest.mark.parametrize(
    ("tried", "given", "bad"),
    [
        (pa.int16(), pa.array([1, 2**40]), [101]),
        (pa.int64(), pa.array([0.5, 7.0]), [100]),
        (pa.int64(), pa.array([float("nan"), 7.0]), [100]),
        (pa.timestamp("us"), pa.array([1000, 1], pa.timestamp("ns")), [101]),
    ],
    ids=str,
)
def test_a_value_that_the_columns_type_does_not_hold_is_the_records_fault(
    tried: pa.DataType, given: pa.Array, bad: list[int]
) -> None:
    with pytest.raises(Poison) as poison:
        odd(tried, ["n", "s"], [given, S])
    assert [offset for offset, _ in poison.value.records] == bad


@pytest.mark.parametrize(
    ("tried", "given"),
    [
        (pa.float32(), pa.float64()),  # Arrow would round
        (pa.decimal128(9, 2), pa.float64()),
        (pa.decimal128(9, 2), pa.int64()),
        (pa.timestamp("us", tz="UTC"), pa.timestamp("us")),  # which moment is meant?
        (pa.timestamp("us"), pa.date32()),
        (pa.binary(), pa.string()),
    ],
    ids=str,
)
def test_a_type_that_may_mean_something_else_is_refused(tried: pa.DataType, given: pa.DataType) -> None:
    with pytest.raises(Refused, match=f"'n' as {given}".replace("[", r"\[")):
        odd(tried, ["n", "s"], [pa.nulls(2, given), S])


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
    kind = pa.struct({"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()})
    place = pa.array([{"topic": "orders", "partition": 2, "offset": 100 + i} for i in range(count)], kind)
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


class Picky:
    """Fails for odd ids."""

    def load(self) -> object:
        return self._made

    def _made(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if any(id_ % 2 for id_ in batch.column("id").to_pylist()):
            raise ValueError("odd")
        return batch


@pytest.mark.parametrize(("most", "found"), [(MOST_POISON, [101, 103]), (MOST_ASIDE, [101, 103, 105, 107, 109])])
def test_records_that_are_put_aside_are_all_found_in_one_pass(most: int, found: list[int]) -> None:
    shape = RowShape(provenance=True, arrow=cast(FunctionName, Picky()), most_bad=most)
    parts = (records(10).slice(start, 4) for start in range(0, 10, 4))
    with pytest.raises(Poison) as poison:
        list(shape.rows(ORDERS, parts))
    assert [offset for offset, _ in poison.value.records] == found
