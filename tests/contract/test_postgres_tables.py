"""Tables that exist or are made, odd names and odd batches, and which records a table did not take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pytest
from psycopg import sql

from contract.postgres_target import Target, broken_utf8, column
from fencepost.errors import Poison, Refused, Usage
from fencepost.local import Stack
from fencepost.rows.json_column import json_field
from fencepost.sinks.postgres import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.columns import Column
from fencepost.sinks.postgres.connection import Connection
from fencepost.sinks.postgres.table import fit_columns, make_table, read_columns
from fencepost.testing.batches import batch, owner


class Shelf:
    """A store over a table that has an `_offset` column."""

    def __init__(self, dsn: str, table: str, columns: tuple[Column, ...], schema: str) -> None:
        self.store = PostgresStore(PostgresSettings(dsn, "shop", table, columns, schema))
        self.tenure = owner(self.store)

    def write(self, *parts: pa.RecordBatch) -> int:
        return self.store.write(batch(self.tenure, 0, 100, iter(parts))).rows


@pytest.fixture
def shelf(stack: Stack, target: Target) -> Iterator[Shelf]:
    target.make("v text, _offset bigint")
    schema = f"{target.name}_own"
    made = Shelf(stack.dsn, target.name, read_columns(target.connection, target.name), schema)
    yield made
    made.store.close()
    target.connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))


def events(values: Sequence[str | None] | pa.Array, first: int = 0) -> pa.RecordBatch:
    offsets = pa.array(range(first, first + len(values)), pa.int64())
    return pa.RecordBatch.from_arrays([pa.array(values, pa.string()), offsets], names=["v", "_offset"])


def test_batches_without_rows_are_passed_over(shelf: Shelf, target: Target) -> None:
    assert shelf.write() == 0
    assert shelf.write(events([]), events(["a", None]), events([]), events(["b"], 2).slice(1)) == 2
    assert target.texts() == ["a", None]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("bigint", "double precision"),
        ("bigint", "integer"),
        ("bigint", "text"),
        ("timestamp", "bigint"),
        ("text", "bytea"),
    ],
)
def test_a_column_that_changes_its_type_takes_no_value_for_another(
    stack: Stack, target: Target, before: str, after: str
) -> None:
    """In binary form four or eight bytes are a number, a moment or a text as the table's type wants it."""
    target.make(f"v {before}, _offset bigint")
    schema = f"{target.name}_own"
    shelf = Shelf(stack.dsn, target.name, read_columns(target.connection, target.name), schema)
    values = {"bigint": pa.int64(), "timestamp": pa.timestamp("us"), "text": pa.string()}
    number = pa.array([7], pa.int64())
    rows = pa.RecordBatch.from_arrays([number.cast(values[before]), number], names=["v", "_offset"])
    try:
        assert shelf.write(rows) == 1
        target.connection.execute(f"ALTER TABLE {target.name} ALTER v TYPE {after} USING NULL")
        with pytest.raises(Refused, match=f"'v' .* is {after} now") as refused:
            shelf.write(rows)
        assert not isinstance(refused.value, Poison)
        assert target.texts() == [None]
    finally:
        shelf.store.close()
        target.connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))


def test_columns_are_taken_by_their_names(shelf: Shelf, target: Target) -> None:
    rows = events(["a", "b"])
    assert shelf.write(rows.select(["_offset", "v"])) == 2
    assert target.texts() == ["a", "b"]
    for odd in (rows.select(["v"]), rows.append_column("w", rows.column(0)), rows.rename_columns(["v", "v"])):
        with pytest.raises(Refused, match="the columns v"):
            shelf.write(odd)


def test_poison_is_named_by_its_offsets_and_nothing_of_its_span_lands(shelf: Shelf, target: Target) -> None:
    values = ["x"] * 50
    values[7] = values[31] = values[45] = "a\0b"
    with pytest.raises(Poison) as refused:
        shelf.write(events(["earlier"] * 10), events(values, 10).slice(5, 40))
    assert [offset for offset, _ in refused.value.records] == [17, 41]
    assert "0x00" in refused.value.records[0][1]
    assert refused.value.partition == "orders/0"
    assert target.texts() == []
    assert shelf.write(events(["later"])) == 1


ODD_TABLE = """
ALTER TABLE {table} ALTER v TYPE varchar(9), ADD UNIQUE (v), ADD CHECK (v <> 'check'),
    ADD n integer GENERATED ALWAYS AS (100 / (pg_catalog.length(v) - 7)) STORED;
CREATE FUNCTION {no}() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    IF NEW.v = 'triggered' THEN RAISE check_violation USING MESSAGE = 'not this'; END IF; RETURN NEW;
END $$;
CREATE TRIGGER no AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {no}();
CREATE RULE never AS ON INSERT TO {table} DO INSTEAD NOTHING;  -- which COPY does not heed
"""
ODD_VALUES = {
    "a\0b": "0x00",
    "check": "violates check constraint",
    "twice": "duplicate key",
    "divided": "division by zero",
    "triggered": "not this",
    "abcdefghij": "outside the range of character varying(9)",
}


def test_each_of_very_many_bad_rows_is_named_with_its_own_reason(shelf: Shelf, target: Target) -> None:
    """Every other row is bad, and the first of two that a unique index keeps apart is not."""
    names = {"table": sql.Identifier(target.name), "no": sql.Identifier(f"{target.name}_no")}
    target.connection.execute(sql.SQL(ODD_TABLE).format(**names))
    columns = [one for one in read_columns(target.connection, target.name) if one.name != "n"]
    settings = replace(shelf.store.settings, columns=tuple(columns), most_bad=1_000)
    bad = [*ODD_VALUES] * 40
    values = ["twice", *(value for at, odd in enumerate(bad) for value in (odd, f"{at:03}"))]
    try:
        with closing(PostgresStore(settings)) as store:
            with pytest.raises(Poison) as refused:
                store.write(batch(shelf.tenure, 0, len(values), iter([events(values)])))
            found = dict(refused.value.records)
            assert sorted(found) == [1 + 2 * at for at in range(len(bad))]
            assert [odd for at, odd in enumerate(bad) if ODD_VALUES[odd] not in found[1 + 2 * at]] == []
            assert target.texts() == []
            good = events(values).filter(pa.array([at not in found for at in range(len(values))]))
            assert store.write(batch(shelf.tenure, 0, len(values), iter([good]))).rows == len(bad) + 1
    finally:
        target.connection.execute(sql.SQL("DROP FUNCTION {} CASCADE").format(names["no"]))


def test_a_run_that_stops_looks_for_no_more_than_it_names(shelf: Shelf) -> None:
    with pytest.raises(Poison) as refused:
        shelf.write(events(["a\0b", "x"] * 20_000))
    assert [offset for offset, _ in refused.value.records] == [*range(0, 200, 2)]


def test_broken_utf8_is_named_by_its_offset(shelf: Shelf, target: Target) -> None:
    with pytest.raises(Poison) as refused:
        shelf.write(events(broken_utf8(), 70))
    assert [offset for offset, _ in refused.value.records] == [71]
    assert target.texts() == []


def test_a_value_that_is_refused_before_it_is_sent_is_named_too(shelf: Shelf, target: Target) -> None:
    target.connection.execute(sql.SQL("ALTER TABLE {} ALTER v TYPE varchar(3)").format(sql.Identifier(target.name)))
    narrow = Shelf(
        shelf.store._settings.dsn,
        target.name,
        read_columns(target.connection, target.name),
        shelf.store._settings.schema,
    )
    with closing(narrow.store), pytest.raises(Poison) as refused:
        narrow.write(events(["abc", "abcd", "abc ", "ab"], 20))
    assert [offset for offset, _ in refused.value.records] == [21, 22]


def test_a_new_table_has_the_types_that_were_made_up_for_it(target: Target) -> None:
    schema = pa.schema(
        [("a", pa.int8()), ("b", pa.timestamp("us", tz="UTC")), ("c", pa.decimal128(12, 3)), json_field("d")]
    )
    target.take(pa.RecordBatch.from_pylist([], schema=schema))
    assert read_columns(target.connection, target.name) == (
        Column("a", "smallint"),
        Column("b", "timestamp with time zone"),
        Column("c", "numeric(12,3)"),
        Column("d", "jsonb"),
    )


@pytest.mark.parametrize(
    ("there", "problem"),
    [
        ("other text", "'v' is missing there"),
        ("v text", "'v' is bigint here and text there"),
        ("v integer", "'v' is bigint here and integer there"),
        ("v numeric(18)", "'v' is bigint here and numeric(18,0) there"),
        ("v double precision", "'v' is bigint here and double precision there"),
        ("v bigint, other text NOT NULL", "'other' is required there and not given"),
        ('"V" bigint', "'v' is missing there"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_before_the_first_row(target: Target, there: str, problem: str) -> None:
    target.make(there)
    with pytest.raises(Usage) as refused:
        target.take(column(pa.int64(), [1]))
    assert problem in refused.value.message
    assert target.values() == []


@pytest.mark.parametrize(
    "there",
    [
        "v bigint, other text NOT NULL DEFAULT 'x'",
        "v bigint, other bigint GENERATED ALWAYS AS IDENTITY",
        "v bigint, other bigint NOT NULL GENERATED ALWAYS AS (v + 1) STORED",
        "other text, v bigint NOT NULL",
    ],
)
def test_columns_that_fill_themselves_need_not_be_given(target: Target, there: str) -> None:
    target.make(there)
    target.take(column(pa.int64(), [1, 2]))
    assert target.texts() == ["1", "2"]


ODD = ['Kä"se', "a b", "SELECT", "x;--", "%s {}", "'quoted'"]


@pytest.mark.parametrize("exists", [False, True], ids=["made", "found"])
def test_odd_names_are_quoted_everywhere(stack: Stack, connection: Connection, exists: bool) -> None:
    tag = uuid4().hex[:12]
    target, schema = Target(connection, f'Odd "table" {tag} %s'), f'Odd "schema" {tag}'
    rows = pa.RecordBatch.from_pydict({name: pa.array([7], pa.int64()) for name in ODD})
    columns, _ = fit_columns(connection, target.name, rows.schema)
    if exists:
        make_table(connection, target.name, tuple(reversed(columns)))
        columns, found = fit_columns(connection, target.name, rows.schema)
        assert found
    else:
        make_table(connection, target.name, columns)
    try:
        with closing(PostgresStore(PostgresSettings(stack.dsn, "shop", target.name, columns, schema))) as store:
            tenure = owner(store)
            assert store.write(batch(tenure, 0, 1, iter([rows]))).rows == 1
            assert not store.done(batch(tenure, 0, 1))
        assert target.values() == [(7,) * len(ODD)]
    finally:
        target.drop()
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))


def test_a_table_may_live_in_a_schema_of_its_own(target: Target) -> None:
    schema = f"{target.name}_shop"
    target.connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    elsewhere = Target(target.connection, f"{schema}.orders")
    try:
        elsewhere.take(column(pa.int64(), [1]))
        assert elsewhere.texts() == ["1"]
    finally:
        target.connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))


def test_a_new_table_has_its_key_as_primary_key(target: Target) -> None:
    schema = pa.schema([("v", pa.string()), ("id", pa.int64())])
    columns, _ = fit_columns(target.connection, target.name, schema, ("id", "v"))
    make_table(target.connection, target.name, columns, ("id", "v"))
    assert fit_columns(target.connection, target.name, schema, ("v", "id")) == (
        (Column("v", "text", required=True), Column("id", "bigint", required=True)),
        True,
    )


@pytest.mark.parametrize(
    "there",
    [
        "id bigint, v text",
        "id bigint, v text, PRIMARY KEY (id, v)",
        "id bigint, v text UNIQUE",
        "id bigint NOT NULL, v text, UNIQUE (id) DEFERRABLE",
        "id bigint UNIQUE, v text",
        "id bigint, v text, EXCLUDE USING btree (id WITH =)",
    ],
)
def test_a_table_in_which_a_key_could_have_two_rows_is_refused_with_the_statement_to_run(
    target: Target, there: str
) -> None:
    target.make(there)
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    with pytest.raises(Usage) as refused:
        fit_columns(target.connection, target.name, schema, ("id",))
    target.connection.execute(refused.value.remedy.encode())
    assert fit_columns(target.connection, target.name, schema, ("id",))[1]


def test_a_unique_index_on_some_rows_or_on_an_expression_is_no_key(target: Target) -> None:
    target.make("id bigint NOT NULL, v text")
    for index in ("(id) WHERE v IS NULL", "(abs(id))", "(id, abs(id))", "(v) INCLUDE (id)"):
        target.connection.execute(f"CREATE UNIQUE INDEX ON {target.name} {index}".encode())
        with pytest.raises(Usage, match="no unique index on exactly"):
            fit_columns(target.connection, target.name, pa.schema([("id", pa.int64())]), ("id",))


def test_a_column_that_the_table_lacks_is_refused_with_the_statement_that_adds_it(target: Target) -> None:
    target.take(column(pa.int64(), [1]))
    wider = pa.RecordBatch.from_pydict({"v": pa.array([2], pa.int64()), 'a "b"': ["x"], "c": [0.5]})
    with pytest.raises(Usage) as refused:
        target.take(wider)
    _, _, statement = refused.value.remedy.partition("or: ")
    target.connection.execute(statement.encode())
    target.take(wider)
    assert target.values() == [(1, None, None), (2, "x", 0.5)]
