"""A pipeline that goes on where somebody's own Spark query ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.admin.import_positions import find
from fencepost.admin.positions import carry_out, propose
from fencepost.spec import load
from spark.drivers import naive_process
from spark.flows import Flow


@pytest.mark.timeout(600)
@pytest.mark.proof
def test_a_sparks_checkpoint_says_where_to_go_on(flow: Flow, tmp_path: Path) -> None:
    flow.produce(range(100))
    checkpoint = tmp_path / "checkpoint"
    settings = {
        "bootstrap.servers": flow.stack.bootstrap_servers,
        "topic": flow.name,
        "dsn": flow.stack.dsn,
        "checkpoint": checkpoint.as_uri(),
        "stop_on": -1,
        "witness": str(tmp_path / "witness"),
    }
    with naive_process(tmp_path, settings) as driver:
        assert driver.ended() == 0, driver.told()
    assert len(flow.landed()) == 100
    flow.produce(range(100, 130))
    parts = {"engine": "python", "transform": None, "options": {"provenance": False}}
    flow.sql(f"ALTER TABLE {flow.name} ADD COLUMN s text")
    spec = load(flow.declare(**parts))
    found = find(spec, f"checkpoint:{checkpoint.as_uri()}")
    assert (found.positions, found.warning) == ({flow.name: {0: 50, 1: 50}}, "")
    carry_out(spec, propose(spec, found.positions))
    assert flow.run(**parts).rows == 30  # type: ignore[arg-type]
    flow.assert_exact(130)
