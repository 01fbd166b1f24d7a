"""A catalog in PostgreSQL, before its first table and under the names and roles that people give it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from contract.iceberg_subject import made
from fencepost.errors import Usage
from fencepost.local import Stack
from fencepost.machine import process
from fencepost.model import TopicPartition
from fencepost.sinks.iceberg import catalog
from fencepost.sinks.iceberg.options import IcebergOptions
from fencepost.sinks.iceberg.table import IcebergTarget


@pytest.fixture
def options(stack: Stack, tmp_path: Path) -> IcebergOptions:
    wanted = {"catalog": f"Lake_{uuid4().hex}", "table": "db.t", "warehouse": str(tmp_path), "dsn": stack.dsn}
    return IcebergOptions.model_validate(wanted)


def schemas(stack: Stack, name: str) -> list[tuple[str]]:
    with closing(psycopg.connect(stack.dsn)) as connection:
        return connection.execute("SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname = %s", (name,)).fetchall()


def test_who_only_looks_makes_nothing(stack: Stack, options: IcebergOptions) -> None:
    assert catalog.load(options, {}) is None
    assert schemas(stack, options.catalog) == []


def test_a_catalog_s_name_may_have_upper_case(options: IcebergOptions) -> None:
    made(options)
    assert catalog.load(options, {}) is not None
    assert catalog.library_settings(options, {})["jdbc.currentSchema"] == f'"{options.catalog}"'


def test_a_role_that_may_make_no_schema_uses_one_that_is_there(stack: Stack, options: IcebergOptions) -> None:
    role = f"low_{uuid4().hex}"
    with closing(psycopg.connect(stack.dsn, autocommit=True)) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'low'").format(sql.Identifier(role)))
        connection.execute(
            sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(sql.Identifier(options.catalog), sql.Identifier(role))
        )
    login = {"user": role, "password": "low", "passfile": "/dev/null"}
    low = options.model_copy(update={"dsn": make_conninfo(stack.dsn, **login)})
    made(low)
    assert catalog.load(low, {}) is not None


def test_positions_of_a_table_that_is_not_there_cannot_be_set(options: IcebergOptions) -> None:
    with closing(IcebergTarget(options, {}).open()) as store, pytest.raises(Usage, match="there is no table"):
        store.set_positions("p", {TopicPartition("o", 0): 5}, {})


def test_a_store_keeps_one_connection_and_closes_it(stack: Stack, options: IcebergOptions) -> None:
    """The watch over a run asks every few seconds."""
    made(options)
    before = connections(stack)
    with closing(IcebergTarget(options, {}).open()) as store:
        for _ in range(5):
            store.stored("p")
        assert connections(stack) == before + 1
    assert process.until(lambda: connections(stack) == before, 10.0)


def connections(stack: Stack) -> int:
    """Sessions of the tests' own database besides this one, whatever they call themselves."""
    with closing(psycopg.connect(stack.dsn, autocommit=True)) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_catalog.pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    assert found is not None
    return int(found[0])
