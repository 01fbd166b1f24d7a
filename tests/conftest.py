"""What several suites share: the one local stack of a test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.local import Stack


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Brokers and PostgreSQL with Kafka's own timeouts, started at first use and wiped at the end.

    Whoever kills or stops one of its processes restarts it and calls `wait_in_sync` before the test ends.
    """
    with Stack.temporary() as stack:
        yield stack
