"""A real PostgreSQL behind the proxy, as the tests see it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fencepost.lab.proxy import Protocol, Proxy

APPLICATION = "writer"


@dataclass(frozen=True)
class Database:
    proxy: Proxy
    dsn: str  # through the proxy
    direct: str
    table: sql.Identifier

    def connect(self, **options: Any) -> Connection:
        return psycopg.connect(make_conninfo(self.dsn, application_name=APPLICATION), **options)

    def insert(self, connection: Connection, number: int = 1) -> None:
        connection.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(self.table, sql.Literal(number)))

    def rows(self) -> list[int]:
        with psycopg.connect(self.direct) as connection:
            found = connection.execute(sql.SQL("SELECT n FROM {} ORDER BY n").format(self.table))
            return [n for (n,) in found]

    def await_rows(self, expected: list[int]) -> None:
        await_that(lambda: self.rows() == expected)

    def sessions(self) -> int:
        with psycopg.connect(self.direct) as connection:
            statement = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
            (count,) = connection.execute(statement, [APPLICATION]).fetchone() or (0,)
            return int(count)


def await_that(condition: Callable[[], bool], within: float = 10.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


@contextmanager
def proxied(dsn: str) -> Iterator[Database]:
    """A table of its own in the database, behind a proxy of its own."""
    parts = conninfo_to_dict(dsn)
    table = sql.Identifier(f"t_{uuid.uuid4().hex}")
    with psycopg.connect(dsn) as connection:
        connection.execute(sql.SQL("CREATE TABLE {} (n int)").format(table))
    with Proxy() as proxy:
        target = (str(parts["host"]), int(str(parts["port"])))
        port = proxy.listen("db", target=target, protocol=Protocol.POSTGRES)
        yield Database(proxy, make_conninfo(dsn, port=port), dsn, table)
