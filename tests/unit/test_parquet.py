"""Parquet files: which options and columns are refused, and what a batch of several partitions does to a group."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from fencepost.errors import Usage
from fencepost.sinks.parquet.columns import fitted, types_of
from fencepost.sinks.parquet.folder import Folder
from fencepost.sinks.parquet.options import ParquetOptions

ROWS = pa.schema([("id", pa.int64()), ("day", pa.string()), ("at", pa.timestamp("us", "UTC"))])


@pytest.mark.parametrize("names", [["_partition"], [".day"], ["day", "DAY"]])
def test_folders_that_readers_skip_or_mix_up_are_refused(names: list[str]) -> None:
    with pytest.raises(ValidationError):
        ParquetOptions.model_validate({"path": "/lake", "partition_by": names})


@pytest.mark.parametrize(
    ("columns", "partition_by", "why"),
    [
        ([("a b", pa.int64())], (), "none of"),
        ([("a", pa.int64()), ("A", pa.int64())], (), "differ in case only"),
        ([("a", pa.null())], (), "is null, which is not written"),
        ([("a", pa.int64())], ("b",), "partition_by 'b' is not a column"),
        ([("a", pa.int64())], ("a",), "names every column"),
    ],
)
def test_columns_that_files_cannot_have_are_refused(
    columns: list[tuple[str, pa.DataType]], partition_by: tuple[str, ...], why: str
) -> None:
    with pytest.raises(Usage, match=why):
        types_of(pa.schema(columns), partition_by)


def test_rows_fit_files_of_the_same_columns_whatever_their_order_and_unit_of_time() -> None:
    there = pa.schema([("at", pa.timestamp("ns")), ("day", pa.string()), ("id", pa.int64())])
    assert fitted("/lake", ROWS, there, ("day",)) == {"id": "int64", "day": "string", "at": "timestamp"}


def test_what_readers_see_is_what_is_read(tmp_path: Path) -> None:
    options = ParquetOptions.model_validate({"path": str(tmp_path), "partition_by": ["day"]})
    folder = Folder(options)
    assert not folder.holds_files()
    for name in ("_fencepost/shop/1-a", "_temporary/0", "day=007"):
        (tmp_path / name).mkdir(parents=True)
        pq.write_table(pa.table({"id": [len(name)]}), tmp_path / name / "part-0.parquet")
    (tmp_path / "notes.txt").write_text("no file of ours")
    assert folder.read(("id", "day")).to_pylist() == [{"id": 7, "day": "007"}]
    assert folder.last_rows(5) == (["id", "day"], [(7, "007")])
    assert folder.last_rows(1)[1] == [(7, "007")]


def test_a_file_that_was_cut_off_is_named(tmp_path: Path) -> None:
    (tmp_path / "part-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(Usage, match="no whole Parquet file"):
        Folder(ParquetOptions.model_validate({"path": str(tmp_path)})).schema()


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    folder = Folder(ParquetOptions.model_validate({"path": str(tmp_path / "none")}))
    assert not folder.holds_files()
    assert folder.schema() is None
    with pytest.raises(Usage, match="there are no Parquet files"):
        folder.require()
