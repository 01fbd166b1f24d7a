"""The shared PostgreSQL behind a proxy."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.local import Stack
from lab.database import Database, proxied


@pytest.fixture(scope="session")
def postgres_dsn(stack: Stack) -> str:
    return stack.dsn


@pytest.fixture
def database(postgres_dsn: str) -> Iterator[Database]:
    with proxied(postgres_dsn) as database:
        yield database


@pytest.fixture
def background(database: Database) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool
        database.proxy.close()  # frees a thread that a failed test left waiting
