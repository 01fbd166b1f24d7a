"""What a consumer refuses before it connects: settings under which no guarantee holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fencepost.engines.python.settings import ConsumerSettings
from fencepost.errors import UnsupportedGuarantee, Usage
from fencepost.guarantee import Guarantee
from fencepost.rules.reader import _PITFALLS
from fencepost.spec import PipelineSpec

HERE = {"bootstrap.servers": "127.0.0.1:1"}
PIPELINE: dict[str, Any] = {
    "name": "orders",
    "guarantee": "exactly-once",
    "engine": "python",
    "source": {"topic": "orders"},
    "sink": {"format": "postgres", "options": {"table": "orders"}},
}


@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize("value", ["read_uncommitted", "READ_UNCOMMITTED", " read_uncommitted "])
def test_a_consumer_reads_committed_records_only(guarantee: Guarantee, value: str) -> None:
    with pytest.raises(UnsupportedGuarantee, match="aborted"):
        ConsumerSettings({**HERE, "isolation.level": value}, "orders", "g", guarantee)


@pytest.mark.parametrize("name", sorted(_PITFALLS))
def test_what_no_guarantee_survives_in_a_pipeline_it_does_not_survive_in_a_consumer(name: str) -> None:
    bad, _, _, possible = _PITFALLS[name]
    if Guarantee.EXACTLY_ONCE in possible:
        return
    with pytest.raises(UnsupportedGuarantee):
        ConsumerSettings({**HERE, name: bad or "5"}, "orders", "g", Guarantee.EXACTLY_ONCE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auto.offset.reset", "latest"),
        ("auto.offset.reset", "earliest"),
        ("enable.auto.commit", "true"),
        ("auto.commit.enable", "true"),
        ("enable.auto.offset.store", "true"),
        ("group.id", "other"),
        ("enable.partition.eof", "false"),
        ("topic.blacklist", "orders"),
    ],
)
def test_what_moves_positions_behind_our_back_is_refused(name: str, value: str) -> None:
    with pytest.raises(Usage, match=name):
        ConsumerSettings({**HERE, name: value}, "orders", "g", Guarantee.AT_LEAST_ONCE).librdkafka()


@pytest.mark.parametrize("spelling", ["option", "file"])
def test_the_command_refuses_it_however_it_is_spelled(tmp_path: Path, spelling: str) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("isolation.level=read_uncommitted\n")
    spelled = {"option": ("-X", "isolation.level=read_uncommitted"), "file": ("--command-config", str(properties))}
    argv = ("consume", "--topic", "t", "--group", "g", "--bootstrap-server", "127.0.0.1:1", *spelled[spelling])
    done = subprocess.run(
        [sys.executable, "-m", "fencepost", *argv], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "isolation.level=read_uncommitted" in done.stderr


def test_the_file_of_a_pipeline_is_held_to_the_same() -> None:
    spec = PipelineSpec.model_validate({**PIPELINE, "kafka": {**HERE, "isolation.level": "read_uncommitted"}})
    with pytest.raises(UnsupportedGuarantee):
        ConsumerSettings(spec.kafka, "orders", spec.name, spec.guarantee)
