"""Somebody's own pipeline is broken: their transform, their schema, their data."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from support.commands import here

TRANSFORM = """
import pyarrow.compute as pc

def clean(rows):
    return rows.append_column("total", pc.multiply(rows.column("amount"), 2)).select(["id", "total", "_from"])
"""


def test_a_pipeline_of_ones_own_holds_with_its_transform_and_data(tmp_path: Path) -> None:
    (tmp_path / "transforms.py").write_text(TRANSFORM)
    data = tmp_path / "orders.jsonl"
    data.write_text("".join(json.dumps({"id": number, "amount": number + 0.5}) + "\n" for number in range(30)))
    declared = {
        "name": "shop",
        "guarantee": "exactly-once",
        "engine": "python",
        "source": {"topic": "orders", "value": "json", "schema": "id long, amount double"},
        "transform": {"arrow": "transforms.py:clean"},
        "sink": {"format": "postgres", "options": {"table": "orders"}},
    }
    (tmp_path / "fencepost.yml").write_text(yaml.safe_dump(declared))
    home = tmp_path / "lab"
    words = ["--pipeline", tmp_path / "fencepost.yml", "--data", data, "--seed", "5", "--home", home]
    told = here("lab", "run", "dies-after-the-write", *words, "--format", "json").json
    assert (told["verdict"], told["guarded"]["anomalies"]) == ("holds", {})
    assert told["guarded"]["landed"] == told["guarded"]["sent"]
    assert told["control"]["anomalies"]["D2"] > 0
    assert f"--pipeline {tmp_path / 'fencepost.yml'} --data {data}" in told["command"]
