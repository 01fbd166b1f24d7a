"""Remedies about bad records, followed: those are put aside or mended, and every other one lands once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from consuming.relays import Relay
from fencepost.errors import FencepostError, Poison, Refused
from fencepost.local import Stack

PARSES = """
import json, pyarrow as pa

def parsed(batch):
    def document(value):
        try:
            return json.loads(value)
        except ValueError:
            return {"id": -1}
    values = [json.dumps(document(one)).encode() for one in batch.column("value").to_pylist()]
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), "_from": batch.column("_from")})

def passed(batch):
    return batch.select(["value", "_from"])
"""


def _setting(error: FencepostError) -> dict[str, Any]:
    """What the remedy says to set, as the pipeline file has it."""
    found = re.search(r"\bset ([a-z_]+: (?:\{.*?\}|\w+))", error.remedy)
    assert found, error.remedy
    return dict(yaml.safe_load(found[1]))


def test_a_bad_record_is_put_aside_by_the_setting(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path)
    relay.produce(range(40), instead={7: b"no JSON"})
    with pytest.raises(Poison) as refused:
        relay.run()
    run = relay.run(**_setting(refused.value))
    assert run.dead == 1
    assert Counter(relay.landed()) == Counter(set(range(40)) - {7})
    assert relay.sql(f"SELECT count(*) FROM {relay.name}_dead") == [(1,)]


def test_after_the_brake_all_of_them_are_put_aside_by_the_setting(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path)
    relay.produce(range(40), instead=dict.fromkeys(range(0, 40, 2), b"no JSON"))
    with pytest.raises(Refused, match="20 of the 20") as refused:
        relay.run(on_error="dead_letter")
    run = relay.run(on_error="dead_letter", **_setting(refused.value))
    assert run.dead == 20
    assert Counter(relay.landed()) == Counter(range(1, 40, 2))
    assert relay.sql(f"SELECT count(*) FROM {relay.name}_dead") == [(20,)]


def test_before_a_topic_a_bad_record_is_mended_in_the_transform(stack: Stack, tmp_path: Path) -> None:
    """There are no dead letters beside a topic: a remedy that names them would be refused."""
    (tmp_path / "mine.py").write_text(PARSES)
    relay = Relay(stack, tmp_path, sink="kafka")
    relay.produce(range(40), instead={7: b"no JSON"})
    parsed = {"topic": relay.name, "value": "json", "schema": "id long"}
    with pytest.raises(Poison) as refused:
        relay.run(source=parsed, transform={"arrow": "mine.py:passed"})
    assert "dead_letter" not in refused.value.remedy
    assert "without source.schema, and parse it there" in refused.value.remedy
    relay.run(transform={"arrow": "mine.py:parsed"})
    assert relay.arrived() == Counter({**dict.fromkeys(set(range(40)) - {7}, 1), -1: 1})
