"""The gate's one stack: its brokers serve several groups of suites at once, its PostgreSQL has a database for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from fencepost.local import Stack
from fencepost.local.stack import Node

HOME = "FENCEPOST_GATE_STACK"  # the variable that says where it is


class SharedStack(Stack):
    """It is up, and stays so: whoever breaks one of its processes would break the tests of others."""

    def __init__(self, home: Path, database: str) -> None:
        super().__init__(home)
        self._database = database

    @property
    def dsn(self) -> str:
        return make_conninfo(super().dsn, dbname=self._database)

    def node(self, name: str) -> Node:
        return Kept(self, super().node(name).name)


class Kept(Node):
    """A process that is left alone."""

    def kill(self) -> NoReturn:
        raise AssertionError(f"{self.name} serves others too: tests/gate.py gives this suite a stack of its own")

    stop = restart = kill


@contextmanager
def shared(home: Path) -> Iterator[Stack]:
    """With a database of one's own."""
    database = f"gate_{uuid4().hex}"
    with closing(psycopg.connect(Stack(home).dsn, autocommit=True)) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
    yield SharedStack(home, database)
