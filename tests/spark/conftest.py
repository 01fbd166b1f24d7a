"""A flow of its own for each test: real Kafka, Spark and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fencepost.engines.spark.session import open_session
from fencepost.local import Stack
from spark.flows import SPARK, Flow
from spark.own import OwnFlow


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> Flow:
    return Flow(stack, tmp_path)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Somebody's own session."""
    with open_session("own", SPARK) as spark:
        yield spark


@pytest.fixture
def own(stack: Stack, tmp_path: Path) -> OwnFlow:
    return OwnFlow(stack, tmp_path)
