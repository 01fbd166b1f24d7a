"""Remedies that are commands and options of the command line, typed as they stand."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from consuming.relays import Relay
from fencepost.local import Stack
from fencepost.run.pipeline import Pipeline
from producing.topics import Topics
from remedies.following import commands_in, fencepost, type_in


@pytest.mark.parametrize("name", ["orders-{}", pytest.param("-orders-{}", marks=pytest.mark.proof)])
def test_a_topic_that_is_missing_is_made_where_it_is_missing(stack: Stack, tmp_path: Path, name: str) -> None:
    """The command goes to the cluster that was asked for, not to a local stack."""
    topic, sent = name.format(uuid4().hex[:8]), tmp_path / "sent.jsonl"
    sent.write_text("".join(f'{{"id": {number}}}\n' for number in range(10)))
    produce = ["produce", "--bootstrap-server", stack.bootstrap_servers, "--topic", topic, "--file", str(sent)]
    refused = fencepost(tmp_path, *produce)
    assert refused.code == 2
    (command,) = commands_in(refused.said)
    type_in(command, tmp_path)
    assert fencepost(tmp_path, *produce).code == 0
    assert sum(Topics(stack.bootstrap_servers).values(topic).values()) == 10


def test_positions_of_the_file_that_was_typed_are_set_and_not_those_of_the_folders(
    stack: Stack, tmp_path: Path
) -> None:
    """Two pipelines of one topic: the command that one of them prints moves nothing of the other's."""
    here = Relay(stack, tmp_path)
    here.produce(range(40))
    here.run()
    there = Relay(stack, tmp_path)
    source: dict[str, Any] = {"source": {"topic": here.name, "value": "json", "schema": "id long, s string"}}
    there.run(**source)
    here.declare().rename(tmp_path / "fencepost.yml")
    file = there.declare(**source).rename(tmp_path / "the other's.yml")
    here.produce(range(40, 60))
    here.delete_before(0, 25)
    before = here.positions()
    refused = fencepost(tmp_path, "run", "--once", "--spec", file.name)
    assert refused.code == 1
    (command,) = commands_in(refused.said)
    type_in(command, tmp_path)
    assert here.positions() == before
    Pipeline(file).run(once=True)
    assert Counter(there.landed()) == Counter(set(range(60)) - set(range(40, 50, 2)))


@pytest.mark.proof  # the suite of sources has it in the gate
def test_a_file_that_was_not_sent_before_is_sent_from_its_start_once(stack: Stack, tmp_path: Path) -> None:
    topics, sent = Topics(stack.bootstrap_servers), tmp_path / "sent.txt"
    topic = topics.make()
    sent.write_text("".join(f"{number}\n" for number in range(10)))
    words = ["produce", "--bootstrap-server", stack.bootstrap_servers, "--topic", topic]
    assert fencepost(tmp_path, *words, "--count", "5").code == 0
    words += ["--file", str(sent), "--guarantee", "exactly-once"]
    refused = fencepost(tmp_path, *words)
    (option,) = re.findall(r"give (--[a-z-]+)", refused.said)
    for _ in range(2):
        assert fencepost(tmp_path, *words, option).code == 0
    assert {value: times for value, times in topics.values(topic).items() if value in sent.read_bytes().split()} == {
        str(number).encode(): 1 for number in range(10)
    }
