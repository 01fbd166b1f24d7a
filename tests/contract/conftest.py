"""A table of the test's own in the shared database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any
from uuid import uuid4

import pytest

from contract.delta_subject import InDelta
from contract.iceberg_subject import one_java
from contract.kafka_flow import Flow
from contract.kafka_topics import KafkaTopics
from contract.keyed import Keyed, Maker
from contract.postgres_target import Target
from fencepost.local import Stack
from fencepost.sinks.postgres.connection import Connection, connect


@pytest.fixture(scope="module")
def connection(stack: Stack) -> Iterator[Connection]:
    with closing(connect(stack.dsn)) as connection:
        yield connection


@pytest.fixture(scope="package")
def delta_spark() -> Iterator[Any]:
    with InDelta.session() as spark:
        yield spark


@pytest.fixture(scope="package")
def iceberg_java() -> Iterator[None]:
    with one_java():
        yield


@pytest.fixture
def target(connection: Connection) -> Iterator[Target]:
    target = Target(connection, f"types_{uuid4().hex[:12]}")
    yield target
    target.drop()


@pytest.fixture
def keyed(stack: Stack, connection: Connection) -> Iterator[Maker]:
    with ExitStack() as opened:
        yield lambda merge, **more: opened.enter_context(Keyed(connection, stack.dsn, merge, **more))


@pytest.fixture
def flow(stack: Stack) -> Iterator[Flow]:
    """From one topic into two."""
    with Flow(KafkaTopics(stack.bootstrap_servers)) as flow:
        yield flow
