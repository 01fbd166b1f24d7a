"""What `fencepost.spark.configure` sets on a builder, and what it leaves to its user."""

from __future__ import annotations

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import fencepost
from fencepost.engines.spark.user_session import builder_settings
from fencepost.errors import Usage

DELTA = {"format": "delta", "options": {"path": "/tables/orders"}}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(SparkContext, "_gateway", None)  # as before any session


def test_what_others_add_to_lists_stays() -> None:
    builder = SparkSession.Builder().config("spark.jars", "mine.jar").config("spark.sql.extensions", "my.Extension")
    set_ = builder_settings(fencepost.spark.configure(builder, sink=DELTA))
    assert set_["spark.jars"].endswith(",mine.jar")
    assert "delta" in set_["spark.jars"]
    assert set_["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,my.Extension"
    assert set_["spark.sql.ansi.enabled"] == "true"


def test_what_is_set_otherwise_is_refused() -> None:
    with pytest.raises(Usage):
        fencepost.spark.configure(SparkSession.Builder().config("spark.speculation", "true"), sink=DELTA)
