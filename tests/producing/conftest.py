"""The shared stack, as a producer's tests use it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.lab.scenarios.field import Field, opened
from fencepost.local import Stack
from producing.topics import Topics


@pytest.fixture(scope="session")
def topics(stack: Stack) -> Topics:
    return Topics(stack.bootstrap_servers)


@pytest.fixture(scope="package")
def field() -> Iterator[Field]:
    """Brokers behind proxies, for faults."""
    with opened() as field:
        yield field
