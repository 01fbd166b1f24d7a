"""What an Iceberg sink can say without a catalog."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pydantic import ValidationError

from fencepost.errors import Usage
from fencepost.sinks.iceberg import catalog
from fencepost.sinks.iceberg.options import IcebergOptions
from fencepost.sinks.iceberg.schema import in_table, require_partitions, types_of


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
    [{"dsn": "host=x"}, {"warehouse": "lake"}, {"catalog": "a.b"}, {"catalog": "fencepost_stage"}, {"mode": "upsert"}],
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
