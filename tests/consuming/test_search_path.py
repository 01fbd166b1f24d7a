"""Functions and operators that somebody laid out in `public` are not called, and the target stays where it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner

from consuming.relays import QUICK
from fencepost.admin.positions import carry_out, propose
from fencepost.admin.status import pipeline_status
from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.receipt import Fate, receipt
from fencepost.audit.request import of_pipeline
from fencepost.cli.app import app
from fencepost.local import Stack
from fencepost.spec import load
from spark.flows import Flow
from support.traps import trapped_database

PYTHON: dict[str, Any] = {"engine": "python", "transform": None}
KEYED = {"mode": "upsert", "key": ["s"], "order_by": "id"}


@pytest.fixture(scope="module")
def traps(stack: Stack) -> Iterator[str]:
    with trapped_database(stack.dsn) as dsn:
        with closing(psycopg.connect(dsn)) as connection, pytest.raises(psycopg.Error, match="trapped by"):
            connection.execute("SELECT pg_advisory_lock(1)")  # as it is called without its schema
        with closing(psycopg.connect(dsn)) as connection, pytest.raises(psycopg.Error, match="trapped by"):
            connection.execute("SELECT 'a'::varchar = 'b'::varchar")
        yield dsn


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> Flow:
    flow = Flow(stack, tmp_path)
    flow.kafka |= QUICK
    return flow


def sql(dsn: str, text: str) -> list[Any]:
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        cursor = connection.execute(text.encode())
        return list(cursor.fetchall()) if cursor.description else []


@pytest.mark.parametrize(
    "path",
    ['"$user", public', pytest.param("public, pg_catalog, pg_temp", marks=pytest.mark.proof)],
    ids=["as usual", "PostgreSQL's own last"],
)
@pytest.mark.parametrize("options", [pytest.param({}, marks=pytest.mark.proof), KEYED], ids=["append", "upsert"])
def test_nothing_that_lies_in_public_is_called(flow: Flow, traps: str, path: str, options: dict[str, Any]) -> None:
    owner = make_conninfo(traps, options=f"-c search_path={path.replace(' ', '')}")
    kinds = "s varchar(40) PRIMARY KEY, _topic varchar(99), _partition bigint, _offset numeric, _n bigint"
    sql(traps, f"CREATE TABLE {flow.name} (id numeric(20), {kinds})")
    flow.produce(range(20), instead={13: b"not json"})
    parts = {**PYTHON, "on_error": "dead_letter", "options": {"dsn": owner, **options}}
    role = f"role_{uuid4().hex[:10]}"
    sql(traps, f"CREATE ROLE {role}")
    spec = flow.declare(**parts)
    prepared = CliRunner().invoke(app, ["init", "--db", "--spec", str(spec), "--role", role])
    assert prepared.exit_code == 0, prepared.output
    sql(traps, f"DROP OWNED BY {role}; DROP ROLE {role}")
    flow.run(**parts)
    flow.produce(range(10, 30))
    if not options:
        sql(traps, f"DELETE FROM {flow.name} WHERE id OPERATOR(pg_catalog.>=) 10")
    flow.run(**parts)
    loaded = load(spec)
    assert (pipeline_status(loaded).lag, pipeline_status(loaded).dead) == (0, 1)
    assert receipt(loaded, 1, 6, check=True).fate is Fate.DEAD
    assert receipt(loaded, 1, 5 if not options else 12, check=True).fate is not Fate.GONE
    assert CliRunner().invoke(app, ["peek", "--spec", str(spec)]).exit_code == 0
    found = audit(of_pipeline(loaded))
    assert not found.undecided
    if options:
        assert found.verdict is Verdict.HOLDS
    carry_out(loaded, propose(loaded, "earliest"))


def test_triggers_of_the_tables_owner_find_what_they_name(flow: Flow, stack: Stack) -> None:
    """A function without a search_path of its own goes by that of the role."""
    schema = f"{flow.name}_shop"
    dsn = make_conninfo(stack.dsn, options=f"-c search_path={schema},public")
    sql(dsn, f"CREATE SCHEMA {schema}")
    sql(dsn, "CREATE TABLE tally (rows bigint); INSERT INTO tally VALUES (0)")
    sql(dsn, f"CREATE TABLE {flow.name} (id bigint, s text)")
    count = "BEGIN UPDATE tally SET rows = rows + 1; RETURN NULL; END"
    sql(dsn, f"CREATE FUNCTION counted() RETURNS trigger LANGUAGE plpgsql AS '{count}'")
    sql(dsn, f"CREATE TRIGGER counted AFTER INSERT ON {flow.name} FOR EACH ROW EXECUTE FUNCTION counted()")
    flow.produce(range(10))
    flow.run(**PYTHON, options={"dsn": dsn, "provenance": False})
    assert sql(dsn, "SELECT rows FROM tally") == [(10,)]
    assert sql(dsn, f"SELECT count(*) FROM {schema}.{flow.name}") == [(10,)]
    sql(dsn, f"DROP SCHEMA {schema} CASCADE")


def test_a_table_that_is_made_elsewhere_on_the_path_while_a_run_is_under_way_gets_nothing(
    flow: Flow, stack: Stack
) -> None:
    schema = f"{flow.name}_first"
    dsn = make_conninfo(stack.dsn, options=f"-c search_path={schema},public")
    sql(dsn, f"CREATE SCHEMA {schema}")
    sql(dsn, f"CREATE TABLE public.{flow.name} (id bigint, s text)")
    flow.produce(range(10))

    def planted() -> list[Any]:
        return sql(dsn, f"SELECT * FROM {schema}.{flow.name}")

    with flow.running(**PYTHON, options={"dsn": dsn, "provenance": False}) as run:
        run.wait_until(lambda: len(flow.landed()) == 10, "the first ones have landed")
        sql(dsn, f"CREATE TABLE {schema}.{flow.name} (id bigint, s text)")
        flow.produce(range(10, 20))
        run.wait_until(lambda: len(flow.landed()) == 20 or planted(), "the others have landed")
    assert (len(flow.landed()), planted()) == (20, [])
    sql(dsn, f"DROP SCHEMA {schema} CASCADE")
