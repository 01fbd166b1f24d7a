"""What an Iceberg sink can say without a catalog."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from fencepost.errors import Usage
from fencepost.guarantee import Guarantee
from fencepost.sinks.auditing import Columns
from fencepost.sinks.iceberg import audited, catalog
from fencepost.sinks.iceberg.audited import _last
from fencepost.sinks.iceberg.options import IcebergOptions
from fencepost.sinks.iceberg.schema import in_table, require_partitions, types_of
from fencepost.sinks.iceberg.table import _holds_rows, _is_kept
from fencepost.sinks.kind import SinkJob


def declared(**options: str) -> IcebergOptions:
    return IcebergOptions.model_validate(options)


SHOP = {
    "spark.sql.catalog.shop": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.shop.type": "rest",
    "spark.sql.catalog.shop.uri": "https://catalog.example",
    "spark.sql.catalog.shopping.type": "hive",
    "spark.master": "local[2]",
}


def test_a_declared_catalog_is_taken_in_iceberg_s_own_words() -> None:
    options = declared(catalog="shop", table="db.orders")
    assert catalog.library_settings(options, SHOP) == {"type": "rest", "uri": "https://catalog.example"}
    assert catalog.spark_settings(options, SHOP)["spark.sql.catalog.shop.cache-enabled"] == "false"


@pytest.mark.parametrize("table", ["orders", "db.", ".orders", "db.or ders", "db.x`; DROP", "db..orders", ""])
def test_a_table_has_a_namespace_and_a_plain_name(table: str) -> None:
    with pytest.raises(ValidationError):
        declared(table=table)


@pytest.mark.parametrize(
    "options",
    [
        {"dsn": "host=x"},
        {"warehouse": "lake"},
        {"catalog": "a.b"},
        {"catalog": "fencepost_stage"},
        {"mode": "upsert"},
        {"key": ["id"]},
        {"tombstones": "delete"},
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        IcebergOptions.model_validate({"table": "db.orders", **options})


def test_the_local_stack_is_asked_only_for_a_catalog_in_postgresql() -> None:
    assert declared(table="db.orders", warehouse="/lake").completed(lambda: "host=here").dsn == "host=here"
    assert declared(table="db.orders").completed(lambda: pytest.fail("nobody needs it")).dsn is None


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.bool_(), "boolean"),
        (pa.int16(), "int"),
        (pa.int64(), "long"),
        (pa.float32(), "float"),
        (pa.decimal128(38, 9), "decimal(38, 9)"),
        (pa.string(), "string"),
        (pa.binary(), "binary"),
        (pa.date32(), "date"),
        (pa.timestamp("us"), "timestamp"),
        (pa.timestamp("us", tz="UTC"), "timestamptz"),
    ],
)
def test_types(kind: pa.DataType, name: str) -> None:
    assert types_of(pa.schema([("c", kind)])) == {"c": name}


@pytest.mark.parametrize("kind", [pa.null(), pa.timestamp("ns"), pa.duration("us"), pa.decimal256(50, 2)])
def test_a_type_that_iceberg_has_not_is_named(kind: pa.DataType) -> None:
    with pytest.raises(Usage, match=r"column 'c' is .* which an Iceberg table cannot have"):
        types_of(pa.schema([("c", kind)]))


def test_names_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(Usage, match="differ in case only"):
        types_of(pa.schema([("id", pa.int64()), ("ID", pa.int64())]))


def test_partitions_are_columns_of_the_rows() -> None:
    with pytest.raises(Usage, match="partition_by 'day'"):
        require_partitions(("day",), {"id": "long"})


@pytest.mark.parametrize("name", ["_partition", "_FILE", "_pos", "_row_id"])
def test_a_name_that_iceberg_has_for_itself_is_refused(name: str) -> None:
    with pytest.raises(Usage, match="has one of that name for itself"):
        types_of(pa.schema([(name, pa.int64())]))


def test_where_a_row_came_from_has_a_name_of_its_own() -> None:
    rows = pa.schema([("_topic", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())])
    assert list(types_of(in_table(rows))) == ["_topic", "_kafka_partition", "_offset"]


class History:
    """What is left of a table's snapshots: each with its parent, in the order of their commits."""

    def __init__(self, head: int | None, **parents: int | None) -> None:
        self._head = head
        self._snapshots = {
            int(name[1:]): Snapshot(
                snapshot_id=int(name[1:]), parent_snapshot_id=parent, sequence_number=int(name[1:]), manifest_list="m"
            )
            for name, parent in parents.items()
        }

    def snapshot_by_id(self, number: int) -> Snapshot | None:
        return self._snapshots.get(number)

    def current_snapshot(self) -> Snapshot | None:
        return self._snapshots[self._head] if self._head else None


@pytest.mark.parametrize(
    ("history", "kept"),
    [
        (History(2, s1=None, s2=1), True),
        (History(3, s1=None, s2=1, s3=2), True),
        (History(4, s4=3), True),  # the others have expired
        (History(1, s1=None, s2=1), False),  # rolled back
        (History(3, s1=None, s2=1, s3=None), False),  # CREATE OR REPLACE TABLE ... AS SELECT
        (History(None, s1=None, s2=1), False),  # CREATE OR REPLACE TABLE
    ],
)
def test_the_positions_stand_for_the_rows_only_where_the_table_comes_of_their_commit(history: Any, kept: bool) -> None:
    assert _is_kept(history, 2) is kept


@pytest.mark.parametrize(
    ("summary", "rows"), [({"total-records": "0"}, False), ({"total-records": "7"}, True), ({}, True)]
)
def test_a_table_whose_rows_nobody_counted_may_hold_some(summary: dict[str, str], rows: bool) -> None:
    head = Snapshot(snapshot_id=1, manifest_list="m", summary=Summary(Operation.APPEND, **summary))
    assert _holds_rows(head) is rows
    assert _holds_rows(Snapshot(snapshot_id=1, manifest_list="m"))


def test_of_a_file_only_the_last_rows_are_taken() -> None:
    assert _last(pa.table({"a": range(1_000), "b": range(1_000)}), 2) == [(998, 998), (999, 999)]
    assert _last(pa.table({"a": [1]}), 5) == [(1,)]


def test_rows_of_the_commits_that_came_last_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")) as there:
        there.create_namespace("db")
        table = there.create_table("db.t", schema=pa.schema([("id", pa.int64())]))
        monkeypatch.setattr(audited, "table_of", lambda _job: table)
        job = SinkJob("shop", Guarantee.EXACTLY_ONCE, declared(table="db.t", warehouse="/w"))
        assert audited.last_rows(job, 3) == (["id"], [])
        for number in range(5):
            table.append(pa.table({"id": [2 * number, 2 * number + 1]}))
        assert audited.last_rows(job, 3) == (["id"], [(7,), (8,), (9,)])


def test_rows_that_do_not_know_where_they_came_from_are_counted(tmp_path: Path) -> None:
    with closing(SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")) as there:
        there.create_namespace("db")
        table = there.create_table("db.t", schema=pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [1, 2, 3]}))
        job = SinkJob("shop", Guarantee.EXACTLY_ONCE, declared(table="db.t", warehouse="/w"))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(audited, "table_of", lambda _job: table)
            assert audited._arrow(job, Columns(), provenance=False).num_rows == 3
