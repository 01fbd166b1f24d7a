"""Stages that somebody holds, as a backup does: nobody waits for it, and they go when they can."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from contract.keyed import PARTITIONS
from fencepost.local import Stack
from fencepost.local.postgres import installed
from fencepost.machine.process import until
from fencepost.model import Tenure
from fencepost.sinks.postgres import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.columns import Column
from fencepost.sinks.postgres.connection import Connection
from fencepost.sinks.postgres.stage import Stage, name_for

FIRST = dict.fromkeys(PARTITIONS, 0)


class Shop:
    """A staged pipeline that left a stage behind."""

    def __init__(self, connection: Connection, dsn: str) -> None:
        self.connection, self.name = connection, f"left_{uuid4().hex[:12]}"
        self.schema = f"{self.name}_own"
        connection.execute(f"CREATE TABLE {self.name} (id bigint, v text)")
        columns = (Column("id", "bigint"), Column("v", "text"))
        self.store = PostgresStore(PostgresSettings(dsn, self.name, self.name, columns, self.schema))
        self.tenure = self.store.take_over(self.name, uuid4(), FIRST, {})
        self.stage = self.left(self.tenure.token, 1)

    def left(self, run: UUID, number: int) -> Stage:
        columns = self.store.settings.columns
        stage = Stage(self.schema, name_for(self.name, run, number), self.name, columns, provenance=False)
        stage.make(self.store.connection())
        return stage

    def stages(self) -> set[str]:
        query = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relname LIKE 'stage%%'"
        return {name for (name,) in self.connection.execute(query, (self.schema,))}

    def close(self) -> None:
        self.store.close()
        self.connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(self.name)))
        self.connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(self.schema)))


@pytest.fixture
def shop(stack: Stack, connection: Connection) -> Iterator[Shop]:
    with closing(Shop(connection, stack.dsn)) as shop:
        yield shop


def test_nobody_waits_for_whoever_looks_at_a_leftover_stage(shop: Shop, stack: Stack) -> None:
    with psycopg.connect(stack.dsn) as backup:
        backup.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(shop.stage.rows))
        taken = shop.store.take_over(shop.name, uuid4(), FIRST, {})
        another = shop.left(taken.token, 2)
        renewed = shop.store.renew(taken, uuid4())
        assert shop.stages() == {shop.stage.name}  # of its two tables one is held
        assert another.name not in shop.stages()
    assert_takes_over(shop, renewed)


def assert_takes_over(shop: Shop, tenure: Tenure) -> None:
    """Now that nobody holds the leftovers, they go."""
    assert shop.store.renew(tenure, uuid4()).positions == FIRST
    assert not shop.stages()


def test_a_stage_on_which_somebody_depends_stays_and_is_in_nobodys_way(shop: Shop) -> None:
    view = sql.Identifier(shop.schema, "of_a_stage")
    shop.connection.execute(sql.SQL("CREATE VIEW {} AS SELECT * FROM {}").format(view, shop.stage.rows))
    tenure = shop.store.take_over(shop.name, uuid4(), FIRST, {})
    assert shop.stages() == {shop.stage.name}
    shop.connection.execute(sql.SQL("DROP VIEW {}").format(view))
    assert_takes_over(shop, tenure)


@pytest.mark.proof
def test_nobody_waits_for_a_backup(shop: Shop, stack: Stack) -> None:
    """A real pg_dump, which cannot go on because nobody reads what it writes."""
    fill = "INSERT INTO {} SELECT n, repeat('x', 1000), 1 FROM generate_series(1, 5000) AS n"
    shop.connection.execute(sql.SQL(fill).format(shop.stage.rows))
    programs, libraries = installed()
    environment = os.environ | {"LD_LIBRARY_PATH": str(libraries)}
    command = [str(programs / "pg_dump"), "--dbname", stack.dsn, "--schema", shop.schema]  # the DSN names a passfile
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as dump:
        try:
            assert until(lambda: holds(shop), 60), "pg_dump does not hold the stage"
            taken = shop.store.take_over(shop.name, uuid4(), FIRST, {})
            renewed = shop.store.renew(taken, uuid4())
            assert holds(shop)
        finally:
            dump.kill()
    assert until(lambda: not holds(shop), 60)
    assert_takes_over(shop, renewed)


def holds(shop: Shop) -> bool:
    query = "SELECT 1 FROM pg_locks WHERE relation = to_regclass(%s) AND mode = 'AccessShareLock' AND granted"
    return shop.connection.execute(query, (shop.stage.rows.as_string(shop.connection),)).fetchone() is not None
