"""Which columns fit which: nothing that is let through can be cut, rounded or refused for its type."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.errors import Usage
from fencepost.rows.json_column import json_field
from fencepost.sinks.postgres import dead_letters
from fencepost.sinks.postgres.columns import Column, columns_for, fits, match_columns, type_for

INTEGERS = {"smallint": 2**15, "integer": 2**31, "bigint": 2**63}
OTHERS = [
    "boolean",
    "real",
    "double precision",
    "text",
    "bytea",
    "date",
    "timestamp without time zone",
    "timestamp with time zone",
    "interval",
    "jsonb",
]
THERE = [*INTEGERS, *OTHERS, "json", "character varying", "character(5)", "time without time zone", "uuid", "xml"]
LOSSLESS = {
    ("smallint", "integer"),
    ("smallint", "bigint"),
    ("integer", "bigint"),
    ("real", "double precision"),
    ("text", "character varying"),  # one that is too long is refused row by row
    ("text", "json"),
    ("text", "jsonb"),
    ("jsonb", "json"),
    ("jsonb", "text"),
}


@pytest.mark.parametrize(("made", "there"), list(product([*INTEGERS, *OTHERS], THERE)))
def test_a_type_fits_itself_and_what_holds_all_its_values(made: str, there: str) -> None:
    assert fits(made, there) == (made == there or (made, there) in LOSSLESS)


@st.composite
def numerics(draw: st.DrawFn) -> tuple[int, int]:
    precision = draw(st.integers(1, 38))
    return precision, draw(st.integers(0, precision))


def numeric(precision: int, scale: int) -> str:
    return f"numeric({precision},{scale})"


def holds(room: int, scale: int, value: Fraction) -> bool:
    """Does numeric(room, scale) hold the value as it is? Reckoned with whole numbers, not as the code does."""
    shifted: Fraction = value * 10**scale
    return shifted.denominator == 1 and abs(shifted) < 10**room


@given(numerics(), numerics())
@example((38, 0), (38, 0))
@example((10, 2), (10, 4))  # more digits behind the point, fewer before it
@example((10, 2), (12, 4))
def test_a_decimal_fits_where_its_largest_and_its_finest_value_do(
    made: tuple[int, int], there: tuple[int, int]
) -> None:
    precision, scale = made
    largest, finest = Fraction(10**precision - 1, 10**scale), Fraction(1, 10**scale)
    assert fits(numeric(*made), numeric(*there)) == (holds(*there, largest) and holds(*there, finest))


@given(st.sampled_from(list(INTEGERS)), numerics())
@example("integer", (10, 0))
@example("bigint", (19, 0))
def test_an_integer_fits_where_its_largest_value_does(made: str, there: tuple[int, int]) -> None:
    largest = Fraction(10 ** len(str(INTEGERS[made])) - 1)  # as many digits: numeric counts in those
    assert fits(made, numeric(*there)) == holds(*there, largest)


@given(numerics())
def test_any_number_of_digits_fits_where_none_is_declared(made: tuple[int, int]) -> None:
    assert fits(numeric(*made), "numeric")
    assert all(fits(integer, "numeric") for integer in INTEGERS)


@pytest.mark.parametrize("made", ["real", "double precision", "text", "jsonb", "boolean", "interval"])
def test_what_is_not_a_whole_or_a_decimal_number_does_not_fit_a_numeric(made: str) -> None:
    assert not fits(made, "numeric")
    assert not fits(made, "numeric(38,10)")


@pytest.mark.parametrize("precision", range(7))
@pytest.mark.parametrize(
    ("made", "there"),
    [
        ("timestamp without time zone", "timestamp({}) without time zone"),
        ("timestamp with time zone", "timestamp({}) with time zone"),
        ("interval", "interval({})"),
    ],
)
def test_a_moment_fits_only_where_its_microseconds_are_kept(made: str, there: str, precision: int) -> None:
    assert fits(made, there.format(precision)) == (precision == 6)


@pytest.mark.parametrize(
    "kind",
    [
        pa.null(),
        pa.uint8(),
        pa.uint64(),
        pa.float16(),
        pa.large_string(),
        pa.binary(4),
        pa.date64(),
        pa.time64("us"),
        pa.timestamp("ns"),
        pa.timestamp("ms"),
        pa.timestamp("ns", tz="UTC"),
        pa.timestamp("s", tz="UTC"),
        pa.duration("ns"),
        pa.decimal256(40, 2),
        pa.list_(pa.int32()),
        pa.struct([("a", pa.int8())]),
        pa.map_(pa.string(), pa.int8()),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_a_type_without_its_like_is_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(Usage, match="'odd'"):
        type_for(pa.field("odd", kind))


TABLE = (
    Column("id", "integer", required=True),
    Column("amount", "numeric(10,2)"),
    Column("made", "timestamp with time zone", required=True),
    Column("extra", "jsonb"),
)


def test_a_schema_that_fits_gets_its_columns_in_its_own_order() -> None:
    schema = pa.schema([json_field("extra"), ("made", pa.timestamp("us", tz="UTC")), ("id", pa.int16())])
    assert match_columns(schema, "orders", TABLE) == (TABLE[3], TABLE[2], TABLE[0])


def test_everything_that_does_not_fit_is_named_at_once() -> None:
    schema = pa.schema([("id", pa.int64()), ("amount", pa.decimal128(12, 2)), ("colour", pa.string())])
    with pytest.raises(Usage) as refused:
        match_columns(schema, "orders", TABLE)
    for problem in (
        "'id' is bigint here and integer there",
        "'amount' is numeric(12,2) here and numeric(10,2) there",
        "'colour' is missing there",
        "'made' is required there and not given",
    ):
        assert problem in refused.value.message
    assert "'extra'" not in refused.value.message


@pytest.mark.parametrize(
    ("table", "aside"),
    [("orders", "orders_dead"), ("shop.orders", "shop.orders_dead"), ("x" * 58, "x" * 58 + "_dead")],
)
def test_dead_letters_lie_beside_the_table(table: str, aside: str) -> None:
    assert dead_letters.table_for(table) == aside


@pytest.mark.parametrize("table", ["x" * 59, "x" * 63, "\u00e9" * 31, "\U0001f600" * 15, "s" * 63 + "." + "y" * 60])
def test_the_dead_letters_of_a_long_name_have_a_name_of_their_own_that_nobody_cuts(table: str) -> None:
    aside = dead_letters.table_for(table)
    name = aside.rpartition(".")[2]
    assert len(name.encode()) <= 63
    assert name.endswith("_dead")
    assert aside.rpartition(".")[0] == table.rpartition(".")[0]
    assert dead_letters.table_for(table[:-1] + "z") != aside


def test_a_column_whose_name_postgresql_would_cut_is_refused() -> None:
    with pytest.raises(Usage, match="63 bytes"):
        columns_for(pa.schema({"\u00e9" * 32: pa.int64()}))
