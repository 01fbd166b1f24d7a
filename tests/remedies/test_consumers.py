"""Remedies of consumers whose positions are in a sink, followed: with a pipeline file that is about the same ones."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from consuming.relays import Relay
from fencepost import consume
from fencepost.engines.python.events import Event
from fencepost.errors import RecordsGone
from fencepost.local import Stack
from fencepost.sinks.kafka import Output
from remedies.following import commands_in, fencepost, type_in

FILE = r"with a pipeline file of name (\S+) and this sink(?:, with the option group: (\S+))?, fencepost"
LIBPQ = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "passfile": "PGPASSFILE",
    "dbname": "PGDATABASE",
}
LOST = set(range(20, 30, 2))  # ids


def _lose(relay: Relay) -> None:
    relay.produce(range(20, 40))
    relay.delete_before(0, 15)


def test_a_handler_with_outputs_skips_records_that_are_gone(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path, sink="kafka")
    relay.produce(range(20))

    def handler(events: Sequence[Event]) -> list[Output]:
        return [Output(event.value) for event in events]

    def run() -> None:
        consume(
            handler,
            topic=relay.name,
            group=relay.name,
            guarantee="exactly-once",
            kafka=relay.kafka,
            to_topics=[relay.target],
            once=True,
        )

    run()
    _lose(relay)
    with pytest.raises(RecordsGone) as gone:
        run()
    found = re.search(FILE, gone.value.remedy)
    assert found, gone.value.remedy
    sink = {"format": "kafka", "options": {"topic": relay.target, "group": found[2]}}
    relay.declare(name=found[1], sink=sink).rename(tmp_path / "fencepost.yml")
    (command,) = commands_in(gone.value.remedy)
    type_in(command, tmp_path)
    run()
    assert relay.arrived() == Counter(set(range(40)) - LOST)


@pytest.mark.proof
def test_events_that_go_into_a_table_without_a_file_skip_records_that_are_gone(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = Relay(stack, tmp_path)
    relay.produce(range(20))
    for name, value in conninfo_to_dict(stack.dsn).items():
        if name in LIBPQ:
            monkeypatch.setenv(LIBPQ[name], str(value))
    words = ["consume", "--bootstrap-server", stack.bootstrap_servers, "--topic", relay.name, "--group", relay.name]
    words += ["--table", relay.name, "--guarantee", "exactly-once", "--once"]
    assert fencepost(tmp_path, *words).code == 0
    _lose(relay)
    gone = fencepost(tmp_path, *words)
    assert re.search(FILE, gone.said), gone.said
    relay.declare().rename(tmp_path / "fencepost.yml")
    (command,) = commands_in(gone.said)
    type_in(command, tmp_path)
    assert fencepost(tmp_path, *words).code == 0
    ids = Counter(json.loads(bytes(value))["id"] for value in relay.landed("value"))
    assert ids == Counter(set(range(40)) - LOST)
