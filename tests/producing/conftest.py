"""The shared stack, as a producer's tests use it."""

from __future__ import annotations

import pytest

from fencepost.local import Stack
from producing.topics import Topics


@pytest.fixture(scope="session")
def topics(stack: Stack) -> Topics:
    return Topics(stack.bootstrap_servers)
