"""The PostgreSQL store as the suites drive it, each test with a table of its own in the shared database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest

from fencepost.errors import InputCut
from fencepost.sinks.postgres import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.columns import Column


class InPostgres:
    """One table and one ledger schema; `landed` reads through a connection of its own."""

    def __init__(self, dsn: str, request: pytest.FixtureRequest) -> None:
        self.dsn = dsn
        self.table = f"contract_{uuid4().hex[:12]}"
        self.settings = PostgresSettings(dsn, "shop", self.table, (Column("id", "bigint"),), schema=f"{self.table}_own")
        self.stores: list[PostgresStore] = []
        self._sql(f"CREATE TABLE {self.table} (seen bigint GENERATED ALWAYS AS IDENTITY, id bigint)")
        request.addfinalizer(self.remove)

    def open(self) -> PostgresStore:
        store = PostgresStore(self.settings)
        self.stores.append(store)
        return store

    def rows(self, ids: Sequence[int]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})

    def cut_rows(self, ids: Sequence[int]) -> Iterator[pa.RecordBatch]:
        yield from self.rows(ids)
        raise InputCut("the input broke off")

    def landed(self) -> list[int]:
        return [id_ for (id_,) in self._sql(f"SELECT id FROM {self.table} ORDER BY seen")]

    def remove(self) -> None:
        for store in self.stores:
            store.close()
        self._sql(f"DROP TABLE {self.table}; DROP SCHEMA IF EXISTS {self.table}_own CASCADE")

    def _sql(self, text: str) -> list[Any]:
        with closing(psycopg.connect(self.dsn, autocommit=True)) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []
