"""What several suites share: the one local stack of a test run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from fencepost.local import Stack

# No Spark of a test lives long enough for the slow compiler: without it a start takes two thirds of the processor time.
os.environ.setdefault(
    "PYSPARK_SUBMIT_ARGS", "--conf spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1 pyspark-shell"
)


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Brokers and PostgreSQL with Kafka's own timeouts, started at first use and wiped at the end.

    Whoever kills or stops one of its processes restarts it and calls `wait_in_sync` before the test ends.
    """
    with Stack.temporary() as stack:
        yield stack
