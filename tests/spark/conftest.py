"""A flow of its own for each test: real Kafka, Spark and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.local import Stack
from spark.flows import Flow

MakeFlow = Callable[..., Flow]


@pytest.fixture
def make_flow(stack: Stack, tmp_path: Path) -> MakeFlow:
    """More than one flow, or one with another number of partitions than two."""
    return lambda partitions=2: Flow(stack, tmp_path, partitions)


@pytest.fixture
def flow(make_flow: MakeFlow) -> Flow:
    return make_flow()
