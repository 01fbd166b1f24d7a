"""What a record becomes on its way into the table: values, columns, transforms, types, and where it came from."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from fencepost.errors import Refused
from fencepost.kafka.names import group_of
from spark.flows import Flow

TYPES: dict[str, tuple[str, str, Any]] = {
    # column: how it is made, the type that the new table gets, and what a reader finds in it
    "yes": ("true", "boolean", True),
    "tiny": ("cast(-128 AS tinyint)", "smallint", -128),
    "small": ("cast(32767 AS smallint)", "smallint", 32_767),
    "whole": ("2147483647", "integer", 2_147_483_647),
    "big": ("9223372036854775807", "bigint", 9_223_372_036_854_775_807),
    "single": ("cast(0.5 AS float)", "real", 0.5),
    "double": ("cast(0.1 AS double)", "double precision", 0.1),
    "price": ("cast('-12345678901234567.8901' AS decimal(21,4))", "numeric(21,4)", Decimal("-12345678901234567.8901")),
    "word": ("'Grüße, 世界 🙂'", "text", "Grüße, 世界 🙂"),
    "raw": ("X'00FF10'", "bytea", b"\x00\xff\x10"),
    "day": ("date'2024-02-29'", "date", date(2024, 2, 29)),
    "moment": (
        "timestamp'2026-01-31T12:00:00.123456+02:00'",
        "timestamp with time zone",
        datetime(2026, 1, 31, 10, 0, 0, 123_456, tzinfo=UTC),
    ),
    "wall": (
        "timestamp_ntz'2026-01-31 12:00:00.5'",
        "timestamp without time zone",
        datetime(2026, 1, 31, 12, 0, 0, 500_000),  # noqa: DTZ001 (it has no zone, which is the point)
    ),
    "wait": ("interval '1 02:03:04.5' day to second", "interval", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
    "list": ("array(1, null, 3)", "jsonb", [1, None, 3]),
    "thing": ("named_struct('a', id, 'b', cast(null AS string))", "jsonb", {"a": 7, "b": None}),
    "words": ("map('k', s)", "jsonb", {"k": "7"}),
    "deep": ("array(named_struct('m', map('x', array(1))))", "jsonb", [{"m": {"x": [1]}}]),
    "nothing": ("cast(null AS int)", "integer", None),
    "no_list": ("cast(null AS array<int>)", "jsonb", None),
}


def test_every_type_that_both_sides_know_arrives_as_it_was(flow: Flow) -> None:
    flow.produce([7])
    made = ", ".join(f"{text} AS {name}" for name, (text, _, _) in TYPES.items())
    flow.run(transform={"sql": f"SELECT id, {made}, _from FROM events"})
    columns = flow.sql(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass "
        "AND attnum > 0 ORDER BY attnum",
        flow.name,
    )
    expected = {name: kind for name, (_, kind, _) in TYPES.items()}
    provenance = {"_topic": "text", "_partition": "integer", "_offset": "bigint", "_n": "integer"}
    assert dict(columns) == {"id": "bigint", **expected, **provenance}
    names = ", ".join(TYPES)
    (row,) = flow.sql(f"SELECT {names}, _topic, _partition, _offset, _n FROM {flow.name}")
    assert list(row) == [*(value for _, _, value in TYPES.values()), flow.name, 1, 0, 0]


@pytest.mark.parametrize(
    ("value", "column", "expected"),
    [
        ("bytes", "bytea", b'{"id": 1, "s": "1"}'),
        pytest.param("string", "text", '{"id": 1, "s": "1"}', marks=pytest.mark.proof),
        pytest.param("json", "text", '{"id": 1, "s": "1"}', marks=pytest.mark.proof),
    ],
)
def test_without_a_transform_key_value_and_time_land_as_they_are(
    flow: Flow, value: str, column: str, expected: object
) -> None:
    flow.produce(range(4))
    flow.run(source={"topic": flow.name, "value": value}, transform=None)
    query = f"SELECT key, value, pg_typeof(value)::text, timestamp, _partition, _offset FROM {flow.name}"
    rows = flow.sql(f"{query} ORDER BY _partition, _offset")
    assert [(row[0], *row[4:]) for row in rows] == [(b"0", 0, 0), (b"2", 0, 1), (b"1", 1, 0), (b"3", 1, 1)]
    assert rows[2][1:3] == (expected, column)
    assert abs(rows[2][3] - datetime.now(UTC)) < timedelta(minutes=10)


@pytest.mark.proof
def test_a_schema_alone_makes_columns_and_one_field_may_be_missing(flow: Flow) -> None:
    flow.produce(range(4), {2: b'{"id": 2, "unknown": [1]}'})
    flow.run(transform=None)
    assert sorted(flow.sql(f"SELECT id, s FROM {flow.name}"), key=lambda row: row[0]) == [
        (0, "0"),
        (1, "1"),
        (2, None),
        (3, "3"),
    ]


def test_a_spark_function_that_makes_several_rows_of_one_numbers_them(flow: Flow) -> None:
    flow.produce(range(3_000))  # so that record batches end in the middle of an event's rows
    flow.run(transform={"spark": "spark.transforms:three_of_each"})
    rows = flow.sql(f"SELECT id, part, _n, _partition, _offset FROM {flow.name} ORDER BY id, _n")
    expected = [(id_, part, n, id_ % 2, id_ // 2) for id_ in range(3_000) for n, part in enumerate("abc")]
    assert rows == expected


def test_an_arrow_function_may_drop_rows_and_make_columns(flow: Flow) -> None:
    flow.produce(range(100))
    flow.run(transform={"arrow": "spark.transforms:even_ones"})
    assert sorted(flow.sql(f"SELECT id, doubled, pair, _offset FROM {flow.name}")) == [
        (id_, 2 * id_, {"a": id_, "b": str(id_)}, id_ // 2) for id_ in range(0, 100, 2)
    ]
    assert flow.positions() == {0: 50, 1: 50}


@pytest.mark.proof
def test_an_arrow_functions_columns_go_by_their_names(flow: Flow) -> None:
    flow.produce(range(4_000))  # two record batches a partition, of which the second comes with other ideas
    flow.run(transform={"arrow": "spark.transforms:either_way"})
    expected = [(id_, -id_) for id_ in range(4_000)]
    assert flow.sql(f"SELECT up, down FROM {flow.name} ORDER BY up") == expected


@pytest.mark.proof
def test_an_arrow_function_that_forgets_a_column_is_refused_and_nothing_moves(flow: Flow) -> None:
    flow.produce(range(100))
    with pytest.raises(Refused, match="no column 'down'"):
        flow.run(transform={"arrow": "spark.transforms:half"}, on_error="dead_letter")
    assert flow.landed("up") == []
    assert set(flow.positions().values()) <= {0}


def test_a_transform_that_gives_nothing_advances_and_the_positions_are_mirrored_as_a_group(flow: Flow) -> None:
    flow.produce(range(100))
    run = flow.run(transform={"sql": "SELECT id, _from FROM events WHERE false"})
    assert (run.rows, flow.landed()) == (0, [])
    assert flow.positions() == {0: 50, 1: 50}
    assert _group_offsets(flow) == {0: 50, 1: 50}

    flow.produce(range(100, 200))
    flow.run(transform={"sql": "SELECT id, _from FROM events WHERE id < 0"})
    assert flow.landed() == []
    assert flow.positions() == _group_offsets(flow) == {0: 100, 1: 100}


@pytest.mark.proof
def test_a_run_with_nothing_to_read_ends_well(flow: Flow) -> None:
    flow.run()
    assert flow.positions() == {0: 0, 1: 0}
    flow.produce(range(100))
    flow.run()
    again = flow.run()
    assert (again.rows, again.batches()) == (0, [])
    flow.assert_exact(100)


HEADERS = [
    {"sql": "SELECT id, cast(headers[0].value AS string) AS n, event_id, _from FROM events"},
    {"spark": "spark.transforms:with_header"},
    {"arrow": "spark.transforms:with_header_of_each"},
]


@pytest.mark.proof
def test_headers_and_the_event_id_are_there_for_a_transform_that_asks(flow: Flow) -> None:
    for number, transform in enumerate(HEADERS):
        flow.produce([number])
        flow.run(transform=transform)
    assert sorted(flow.sql(f"SELECT id, n, event_id FROM {flow.name}")) == [
        (0, "0", None),
        (1, "1", None),
        (2, "2", None),
    ]


def _group_offsets(flow: Flow) -> dict[int, int]:
    """What a tool that watches lag sees."""
    group = group_of(flow.name)
    request = [ConsumerGroupTopicPartitions(group)]
    answer = flow.cluster.admin.list_consumer_group_offsets(request)[group].result(30)
    return {at.partition: at.offset for at in answer.topic_partitions}
