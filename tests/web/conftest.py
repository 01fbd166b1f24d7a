"""One server for the suite, over the shared stack; topics are each test's own."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from fencepost.local import Stack
from producing.topics import Topics
from web.serving import browser_of, served


@pytest.fixture(scope="session")
def topics(stack: Stack) -> Topics:
    return Topics(stack.bootstrap_servers)


@pytest.fixture(scope="package")
def address(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server that may change things."""
    folder = tmp_path_factory.mktemp("web")
    with served("--bootstrap-server", stack.bootstrap_servers, "--allow-changes", folder=folder) as address:
        yield address


@pytest.fixture
def web(address: str) -> Iterator[httpx.Client]:
    with browser_of(address) as client:
        yield client
