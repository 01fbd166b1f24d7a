"""A flow of its own for each test: real Kafka, Spark and PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.local import Stack
from spark.flows import Flow


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> Flow:
    return Flow(stack, tmp_path)
