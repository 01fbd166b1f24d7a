"""Somebody else's sink: installed as pip leaves it, held to the contract, run against Kafka, and killed."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from fencepost.kafka.client import Cluster, wait_until
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.lab.crash import standing, visits
from fencepost.local import Stack
from fencepost.producing.sending import Event, send
from support.gate_cases import in_the_gate

HERE = Path(__file__).parent
RUN = HERE.parent / "spark" / "pipeline_process.py"
SUITES = re.findall(r"```python\n(.*?)```", (HERE.parents[1] / "docs" / "sinks.md").read_text(), re.DOTALL)[-1]
QUICK = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}  # so that a dead member is missed soon
EVENTS = 40

Environment = dict[str, str]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The environment of a process that finds the package where pip put it, and no source of it."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--target", str(target), str(HERE)], check=True)
    path = os.pathsep.join([str(target), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


class Shop:
    """A topic of numbers, a pipeline from it into SQLite, and what stands there."""

    def __init__(self, stack: Stack, folder: Path, environment: Environment, partitions: int = 2) -> None:
        self.topic = f"sqlite-{uuid4().hex[:12]}"
        self.kafka = {"bootstrap.servers": stack.bootstrap_servers}
        self.file = folder / "fencepost.yml"
        self.database = folder / "shop.db"
        self._environment = environment
        self._partitions = partitions
        create_topic(Cluster(self.kafka), TopicRequest(self.topic, partitions))
        self.declare()

    def declare(self, **changed: Any) -> None:
        options = {"path": str(self.database), "table": "orders"}
        spec = {
            "name": self.topic,
            "guarantee": "exactly-once",
            "engine": "python",
            "kafka": {**self.kafka, **QUICK},
            "source": {"topic": self.topic, "value": "json", "schema": "n long"},
            "sink": {"format": "sqlite", "options": options},
            "batch": {"records": 5},
        }
        self.file.write_text(json.dumps({**spec, **changed}))

    def produce(self, numbers: Iterable[int]) -> None:
        events = (Event(json.dumps({"n": number}).encode(), partition=number % self._partitions) for number in numbers)
        assert send(self.kafka, self.topic, events).all_acked

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        called = [sys.executable, "-m", "fencepost", *words, "--spec", str(self.file)]
        return subprocess.run(called, env=self._environment, capture_output=True, text=True, check=False, timeout=120)

    def said(self, *words: str) -> dict[str, Any]:
        """The last line of its JSON."""
        ended = self.command(*words, "--format", "json")
        assert ended.returncode == 0, ended.stderr
        found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
        return found

    def process(self, step: str, deed: str, witness: Path) -> subprocess.Popen[str]:
        """A run that kills or stops itself when the first batch of partition 0 reaches the step."""
        crash = ["--once", "--crash", step, "0", deed, str(witness)]
        return subprocess.Popen(
            [sys.executable, str(RUN), str(self.file), *crash],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def rows(self) -> list[int]:
        with closing(sqlite3.connect(self.database, timeout=30)) as connection:
            return [number for (number,) in connection.execute("SELECT n FROM orders ORDER BY n")]


@pytest.fixture
def shop(stack: Stack, tmp_path: Path, installed: Environment) -> Shop:
    return Shop(stack, tmp_path, installed)


def test_it_passes_the_suites_that_ship(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "test_sqlite.py").write_text(SUITES)
    words = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path)]
    called = [sys.executable, "-m", "pytest", *words]
    ended = subprocess.run(called, env=installed, capture_output=True, text=True, check=False, timeout=240)
    assert ended.returncode == 0, ended.stdout
    assert re.search(r"^6\d passed in", ended.stdout, re.MULTILINE), ended.stdout


def test_the_schema_of_the_pipeline_file_has_its_options(installed: Environment) -> None:
    called = [sys.executable, "-m", "fencepost", "spec", "--schema"]
    schema = json.loads(subprocess.run(called, env=installed, capture_output=True, check=True).stdout)
    assert schema["$defs"]["SinkSpec"]["properties"]["format"]["enum"] == [
        "postgres",
        "kafka",
        "delta",
        "iceberg",
        "parquet",
        "sqlite",
    ]
    assert schema["$defs"]["sqlite.options"]["properties"].keys() == {"path", "table", "provenance"}


def test_a_pipeline_runs_and_every_command_knows_where_it_is(shop: Shop) -> None:
    shop.produce(range(EVENTS))
    planned = shop.said("plan")
    assert (planned["target"], planned["target_exists"]) == (f"{shop.database}: orders", False)
    assert planned["columns"]["n"] == "INTEGER"
    assert planned["waiting"] == EVENTS
    assert not shop.database.exists(), "plan changes nothing"
    assert shop.said("run", "--once")["rows"] == EVENTS
    assert shop.rows() == list(range(EVENTS))
    found = shop.said("status")
    assert (found["lag"], found["rows"]) == (0, None)
    assert [at["position"] for at in found["partitions"]] == [EVENTS // 2] * 2
    assert shop.said("plan")["target_exists"]
    assert shop.said("positions", "set", "--to", "0:0", "--yes")["repeated"] == EVENTS // 2
    assert shop.said("run", "--once")["rows"] == EVENTS // 2
    assert shop.rows() == sorted([*range(EVENTS), *range(0, EVENTS, 2)])


@pytest.mark.parametrize("step", in_the_gate(["started", "written", "advanced", "delivered"], "advanced"))
def test_killed_at_any_step_it_loses_and_doubles_nothing(shop: Shop, tmp_path: Path, step: str) -> None:
    shop.produce(range(EVENTS))
    witness = tmp_path / "witness"
    with shop.process(step, "kill", witness) as first:
        told, _ = first.communicate(timeout=90)
    assert first.returncode == -9, told
    assert visits(witness)[-1].acted
    assert shop.command("run", "--once").returncode == 0
    assert shop.rows() == list(range(EVENTS))
    assert shop.said("status")["lag"] == 0


@pytest.mark.proof
def test_a_stopped_run_that_wakes_up_after_its_successor_writes_nothing(
    stack: Stack, tmp_path: Path, installed: Environment
) -> None:
    """One partition: a batch of another one could be stopped inside of SQLite's lock, and everybody would wait."""
    shop, witness = Shop(stack, tmp_path, installed, partitions=1), tmp_path / "witness"
    shop.produce(range(EVENTS))
    with shop.process("advanced", "stop", witness) as zombie:
        try:
            assert wait_until(lambda: standing(witness), 60), "it stands before its commit"
            assert shop.command("run", "--once").returncode == 0
            assert shop.rows() == list(range(EVENTS))
        finally:
            zombie.send_signal(signal.SIGCONT)
        told, _ = zombie.communicate(timeout=90)
    assert "Traceback" not in told
    assert shop.rows() == list(range(EVENTS))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["peek"], "sink 'sqlite' cannot show its last rows"),
        (["audit"], "sqlite"),
        (["receipt", "--partition", "0", "--offset", "0"], "sqlite"),
        (["init", "--db"], "sink 'sqlite' cannot be prepared"),
        (["run", "--once", "--standby"], "without --standby"),
    ],
)
def test_what_it_cannot_do_is_refused_in_one_sentence(shop: Shop, words: list[str], told: str) -> None:
    require_refused(shop.command(*words), told)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"on_error": "dead_letter"}, "sink 'sqlite' cannot store dead letters"),
        ({"engine": "spark"}, "sink.format: sqlite goes with engine: python"),
        ({"sink": {"format": "sqlite", "options": {"path": "shop.db", "table": "t"}}}, "sink.options.path"),
        (
            {"sink": {"format": "sqlite", "options": {"path": "/s.db", "table": "t", "tabel": "t"}}},
            "did you mean 'table'?",
        ),
        ({"sink": {"format": "sqlite", "options": {"path": "/no/shop.db", "table": "t"}}}, "there is no folder /no"),
    ],
)
def test_a_pipeline_that_does_not_go_with_it_is_refused(shop: Shop, changed: dict[str, Any], told: str) -> None:
    shop.declare(**changed)
    require_refused(shop.command("run", "--once"), told)


def test_a_table_that_does_not_fit_is_refused(shop: Shop) -> None:
    with closing(sqlite3.connect(shop.database)) as connection:
        connection.execute("CREATE TABLE orders (n TEXT)")
    require_refused(shop.command("run", "--once"), "table 'orders': column n (INTEGER) is TEXT there")


def require_refused(ended: subprocess.CompletedProcess[str], told: str) -> None:
    assert ended.returncode == 2, ended
    assert told in ended.stderr, ended.stderr
    assert "Traceback" not in ended.stderr
    assert all(line.startswith("fencepost: ") for line in ended.stderr.splitlines()), ended.stderr
