"""The PostgreSQL store in each of its modes as the suites drive it, every test with a table of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest

from fencepost.errors import InputCut
from fencepost.model import Merge, Mode
from fencepost.sinks.postgres import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.columns import Column
from fencepost.testing.batches import ORDERS

PROVENANCE = (
    Column("_topic", "text"),
    Column("_partition", "integer"),
    Column("_offset", "bigint"),
    Column("_n", "integer"),
)


class InPostgres:
    """One table and one ledger schema; `landed` reads through a connection of its own."""

    def __init__(self, dsn: str, request: pytest.FixtureRequest, mode: Mode = Mode.APPEND) -> None:
        self.dsn = dsn
        self.doubles = mode is Mode.APPEND
        self.table = f"contract_{uuid4().hex[:12]}"
        merge = None if mode is Mode.APPEND else Merge(mode, ("id",))
        columns = (Column("id", "bigint"), *(() if self.doubles else PROVENANCE))
        self.settings = PostgresSettings(dsn, "shop", self.table, columns, f"{self.table}_own", merge=merge)
        self.stores: list[PostgresStore] = []
        made = ", ".join(f"{column.name} {column.type}" for column in columns)
        key = ", PRIMARY KEY (id)" if merge else ""
        self._sql(f"CREATE TABLE {self.table} (seen bigint GENERATED ALWAYS AS IDENTITY, {made}{key})")
        request.addfinalizer(self.remove)

    def open(self) -> PostgresStore:
        store = PostgresStore(self.settings)
        self.stores.append(store)
        return store

    def rows(self, ids: Sequence[int]) -> Iterator[pa.RecordBatch]:
        columns: dict[str, Any] = {"id": pa.array(ids, pa.int64())}
        if not self.doubles:
            zeros = pa.array([0] * len(ids), pa.int32())
            columns |= {"_topic": pa.array([ORDERS.topic] * len(ids), pa.string()), "_partition": zeros}
            columns |= {"_offset": columns["id"], "_n": zeros}
        yield pa.RecordBatch.from_pydict(columns)

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
