"""What several suites share: the one local stack of a test run, and the one behind proxies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.lab.scenarios.field import Field, opened
from fencepost.local import Stack
from support.shared_stack import HOME, shared

# No Spark of a test lives long enough for the slow compiler: without it a start takes two thirds of the processor time.
os.environ.setdefault(
    "PYSPARK_SUBMIT_ARGS", "--conf spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1 pyspark-shell"
)


def pytest_configure() -> None:
    """SIGTERM ends a run as Ctrl-C does: with its stacks."""
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("ended by SIGTERM", 143))


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Brokers and PostgreSQL with Kafka's own timeouts, started at first use and wiped at the end; or the gate's.

    Whoever kills or stops one of its processes restarts it and calls `wait_in_sync` before the test ends, and is in a
    group that `gate.py` gives a stack of its own.
    """
    home = os.environ.get(HOME)
    with shared(Path(home)) if home else Stack.temporary() as stack:
        yield stack


@pytest.fixture(scope="session")
def brokers_behind_proxies() -> Iterator[Field]:
    """With timeouts that are short, and proxies before clients and between brokers; started at first use."""
    with opened() as field:
        yield field


@pytest.fixture
def field(brokers_behind_proxies: Field) -> Iterator[Field]:
    """The same, for faults: the rules of a test end with it."""
    yield brokers_behind_proxies
    brokers_behind_proxies.proxy.clear()
