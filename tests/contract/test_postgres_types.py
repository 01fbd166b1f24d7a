"""Every type there and back through a real table: what arrives is what was sent, or nothing arrives and it says why."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.postgres_target import Target, broken_utf8, column
from fencepost.errors import Refused
from fencepost.rows.json_column import json_field
from fencepost.sinks.postgres.binary_copy import DATES, TIMESTAMPS
from fencepost.sinks.postgres.columns import fits
from fencepost.sinks.postgres.connection import Connection

NAN, INFINITY = float("nan"), float("inf")


def counted(kind: pa.DataType, number: int) -> pa.RecordBatch:
    """A date, a timestamp or a duration by its bare number."""
    bare = pa.int32() if kind == pa.date32() else pa.int64()
    return pa.RecordBatch.from_arrays([pa.array([number], bare).cast(kind)], names=["v"])


MOMENT, ZONED = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
NINES = Decimal("9" * 38)

ROUND_TRIPS: list[tuple[pa.DataType | pa.Field, dict[Any, str]]] = [
    (pa.bool_(), {True: "true", False: "false"}),
    (pa.int8(), {-128: "-128", 127: "127"}),
    (pa.int16(), {-(2**15): "-32768", 2**15 - 1: "32767"}),
    (pa.int32(), {-(2**31): "-2147483648", 2**31 - 1: "2147483647"}),
    (pa.int64(), {-(2**63): "-9223372036854775808", 2**63 - 1: "9223372036854775807"}),
    (pa.float32(), {NAN: "NaN", INFINITY: "Infinity", -INFINITY: "-Infinity", -0.0: "-0", 1e-45: "1e-45"}),
    (pa.float64(), {NAN: "NaN", INFINITY: "Infinity", -INFINITY: "-Infinity", -0.0: "-0", 5e-324: "5e-324"}),
    (pa.string(), {"": "", " ": " ", "a\nb\tc\\": "a\nb\tc\\", "é漢\U0001f600": "é漢\U0001f600", "NULL": "NULL"}),
    (pa.binary(), {b"": "\\x", b"\x00\xff": "\\x00ff"}),
    (pa.date32(), {date(1, 1, 1): "0001-01-01", date(9999, 12, 31): "9999-12-31"}),
    (MOMENT, {datetime(1969, 12, 31, 23, 59, 59, 999999): "1969-12-31 23:59:59.999999"}),  # noqa: DTZ001
    (ZONED, {datetime(2024, 2, 29, 12, tzinfo=UTC): "2024-02-29 12:00:00+00"}),
    (pa.timestamp("us", tz="Asia/Tokyo"), {datetime(2024, 2, 29, 12, tzinfo=UTC): "2024-02-29 12:00:00+00"}),
    (pa.duration("us"), {timedelta(days=-40, microseconds=1): "-959:59:59.999999", timedelta(0): "00:00:00"}),
    (pa.decimal128(38, 0), {NINES: "9" * 38, NINES.copy_negate(): "-" + "9" * 38, Decimal(0): "0"}),
    (pa.decimal128(38, 38), {Decimal("0." + "9" * 38): "0." + "9" * 38, Decimal("1E-38"): "0." + "0" * 37 + "1"}),
    (pa.decimal128(10, 2), {Decimal("1.20"): "1.20", Decimal("10000.00"): "10000.00", Decimal("-0.01"): "-0.01"}),
    (json_field("v"), {'{"b": [1, null], "a": "x"}': '{"a": "x", "b": [1, null]}', "null": "null", '""': '""'}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "values"), ROUND_TRIPS, ids=lambda given: "" if isinstance(given, dict) else str(given)
)
def test_what_arrives_is_what_was_sent(target: Target, kind: pa.DataType | pa.Field, values: dict[Any, str]) -> None:
    target.take(column(kind, [None, *values, None]))
    assert target.texts() == [None, *values.values(), None]


@pytest.mark.parametrize(
    ("kind", "values"), ROUND_TRIPS, ids=lambda given: "" if isinstance(given, dict) else str(given)
)
def test_a_slice_is_only_that_slice(target: Target, kind: pa.DataType | pa.Field, values: dict[Any, str]) -> None:
    """With an offset that is no multiple of eight: validity and booleans are bits."""
    first, *_ = values
    rows = column(kind, [first, None, first, *values, None, first, first])
    target.take(rows.slice(3, len(values) + 1))
    assert target.texts() == [*values.values(), None]


KINDS = {
    "bool": (pa.bool_(), st.booleans()),
    "small": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "big": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "single": (pa.float32(), st.floats(allow_nan=False, width=32)),
    "text": (pa.string(), st.text(st.characters(codec="utf-8", exclude_characters="\0"))),
    "bytes": (pa.binary(), st.binary()),
    "day": (pa.date32(), st.dates()),
    "moment": (MOMENT, st.datetimes()),
    "decimal": (pa.decimal128(38, 10), st.integers(1 - 10**38, 10**38 - 1).map(lambda n: Decimal(f"{n}E-10"))),
}
ROW = st.tuples(*(st.none() | values for _, values in KINDS.values()))
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in KINDS.items()])


@pytest.mark.proof
@given(rows=st.lists(ROW, max_size=20), cut=st.integers(0, 9))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows_come_back_as_they_went(target: Target, rows: list[tuple[Any, ...]], cut: int) -> None:
    whole = pa.RecordBatch.from_arrays(
        [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(SCHEMA)], schema=SCHEMA
    )
    target.drop()
    target.take(whole.slice(cut))
    assert target.values() == rows[cut:]


@pytest.mark.parametrize(
    ("kind", "number", "text"),
    [
        (pa.date32(), DATES[0], "4714-11-24 BC"),
        (pa.date32(), DATES[1], "5874897-12-31"),
        (MOMENT, TIMESTAMPS[0], "4714-11-24 00:00:00 BC"),
        (MOMENT, 2**63 - 1, "294247-01-10 04:00:54.775807"),
        (ZONED, TIMESTAMPS[0], "4714-11-24 00:00:00+00 BC"),
        (ZONED, 2**63 - 1, "294247-01-10 04:00:54.775807+00"),
        (pa.duration("us"), 2**63 - 1, "2562047788:00:54.775807"),
        (pa.duration("us"), -(2**63), "-2562047788:00:54.775808"),
    ],
)
def test_the_last_moment_that_the_table_holds_is_kept(
    target: Target, kind: pa.DataType, number: int, text: str
) -> None:
    target.take(counted(kind, number))
    assert target.texts() == [text]


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        (pa.date32(), DATES[0] - 1),
        (pa.date32(), DATES[1] + 1),
        (pa.date32(), -(2**31)),
        (pa.date32(), -(2**31) + 10957),  # would be stored as -infinity
        (pa.date32(), 2**31 - 1),
        (MOMENT, TIMESTAMPS[0] - 1),
        (MOMENT, -(2**63)),
        (MOMENT, -(2**63) + 946_684_800_000_000),  # would be stored as -infinity
        (ZONED, TIMESTAMPS[0] - 1),
        (ZONED, -(2**63)),
    ],
)
def test_a_moment_beyond_the_limits_is_refused_and_never_wraps_around(
    target: Target, kind: pa.DataType, number: int
) -> None:
    target.make("v date" if kind == pa.date32() else "v timestamp" if kind == MOMENT else "v timestamptz")
    with pytest.raises(Refused, match="range"):
        target.take(counted(kind, number))
    assert target.texts() == []


@pytest.mark.parametrize("there", ["bigint", "numeric", "numeric(19,0)", "numeric(38,10)"])
@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
def test_an_integer_goes_into_a_wider_column(target: Target, kind: pa.DataType, there: str) -> None:
    edge = 2 ** (kind.bit_width - 1)
    target.make(f"v {there}")
    target.take(column(kind, [-edge, None, edge - 1]))
    low, nothing, high = target.texts()
    assert (Decimal(low or "x"), nothing, Decimal(high or "x")) == (-edge, None, edge - 1)


@pytest.mark.parametrize(
    ("kind", "there", "sent", "text"),
    [
        (pa.float32(), "double precision", 0.5, "0.5"),
        (pa.decimal128(10, 2), "numeric(12,4)", Decimal("12345678.90"), "12345678.9000"),
        (pa.decimal128(38, 10), "numeric", Decimal("0.0000000001"), "0.0000000001"),
        (pa.string(), "character varying(5)", "漢字漢字漢", "漢字漢字漢"),
        (pa.string(), "json", '{"b":1, "a":2}', '{"b":1, "a":2}'),
        (pa.string(), "jsonb", '{"b":1, "a":2}', '{"a": 2, "b": 1}'),
        (json_field("v"), "json", '{"b":1, "a":2}', '{"b":1, "a":2}'),
        (json_field("v"), "text", '{"b":1, "a":2}', '{"b":1, "a":2}'),
        (MOMENT, "timestamp(6)", datetime(2024, 1, 1, 0, 0, 0, 1), "2024-01-01 00:00:00.000001"),  # noqa: DTZ001
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_column_goes_into_its_like(target: Target, kind: pa.DataType, there: str, sent: Any, text: str) -> None:
    target.make(f"v {there}")
    target.take(column(kind, [sent, None]))
    assert target.texts() == [text, None]


@pytest.mark.parametrize(
    ("there", "values"),
    [
        ("text", pa.array(["fine", "a\0b"])),
        ("text", broken_utf8()),
        ("jsonb", pa.array(['{"a": 1}', '{"a": '])),
        ("jsonb", pa.array(['"\\u0000"'])),
        ("jsonb", pa.array([""])),
        ("json", pa.array(["nonsense"])),
        ("character varying(5)", pa.array(["short", "longer"])),
        ("character varying(5)", pa.array(["short "])),  # PostgreSQL itself would cut the space off in silence
        ("text NOT NULL", pa.array(["a", None])),
        ("text CHECK (v <> 'b')", pa.array(["a", "b"])),
    ],
)
def test_a_value_that_the_column_does_not_take_is_refused_whole(target: Target, there: str, values: pa.Array) -> None:
    target.make(f"v {there}")
    with pytest.raises(Refused):
        target.take(pa.RecordBatch.from_arrays([values], names=["v"]))
    assert target.texts() == []
    target.take(column(pa.string(), ['"ok"']))  # and the connection is fit for more


def test_what_fits_by_our_reckoning_fits_by_the_databases(connection: Connection) -> None:
    """numeric(p,s) into numeric(P,S), for all small ones: the largest value goes in, unchanged."""
    for precision, scale, room, there in product(range(1, 5), range(4), range(1, 5), range(4)):
        if scale > precision or there > room:
            continue
        largest = Decimal(f"{'9' * precision}E-{scale}")
        kind = f"numeric({room},{there})"
        (goes_in,) = connection.execute("SELECT pg_input_is_valid(%s, %s)", (str(largest), kind)).fetchone() or (None,)
        kept = goes_in and connection.execute(f"SELECT '{largest}'::{kind}").fetchone() == (largest,)
        assert fits(f"numeric({precision},{scale})", kind) == kept, (precision, scale, kind)
