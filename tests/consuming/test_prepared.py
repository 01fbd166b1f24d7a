"""`fencepost init --db`: what it made and granted is all that the role which runs the pipeline needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner

from consuming.relays import QUICK
from fencepost.admin.prepare import prepare
from fencepost.cli.app import app
from fencepost.errors import Refused, Usage
from fencepost.local import Stack
from fencepost.run.loop import Summary
from fencepost.run.pipeline import Pipeline
from fencepost.spec import load
from spark.flows import Flow

PYTHON: dict[str, Any] = {"engine": "python", "transform": None}
KEYED = {"mode": "upsert", "key": ["id"]}


class Guarded(Flow):
    """The owner of the database prepares; a role that has no rights but these runs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kafka |= QUICK
        self.role, secret = f"{self.name}_role", uuid4().hex
        self.sql(f"CREATE ROLE {self.role} LOGIN PASSWORD '{secret}'")
        self.role_dsn = make_conninfo(self.stack.dsn, user=self.role, password=secret)
        self.ledger = f"{self.name}_own"

    def spec(self, dsn: str | None = None, **parts: Any) -> Path:
        options = {"dsn": dsn or self.stack.dsn, "ledger_schema": self.ledger, **parts.pop("options", {})}
        return self.declare(**{**PYTHON, **parts}, options=options)

    def prepare(self, *words: str, **parts: Any) -> dict[str, Any]:
        """As its owner does it."""
        command = ["init", "--db", "--spec", str(self.spec(**parts)), "--format", "json", *words]
        done = CliRunner().invoke(app, command, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return dict(json.loads(done.stdout))

    def run_as_role(self, **parts: Any) -> Summary:
        return Pipeline(self.spec(self.role_dsn, **parts)).run(once=True)

    def may(self, privilege: str, table: str) -> bool:
        ((found,),) = self.sql("SELECT has_table_privilege(%s, %s, %s)", self.role, table, privilege)
        return bool(found)


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> Iterator[Guarded]:
    flow = Guarded(stack, tmp_path)
    yield flow
    flow.sql(f"DROP OWNED BY {flow.role}")
    flow.sql(f"DROP ROLE {flow.role}")


@pytest.mark.parametrize(
    "parts",
    [
        {"on_error": "dead_letter"},
        pytest.param({"options": KEYED}, marks=pytest.mark.proof),
        pytest.param(
            {"options": {"mode": "dedupe", "key": ["id"]}, "guarantee": "at-least-once"}, marks=pytest.mark.proof
        ),
        {"options": {**KEYED, "tombstones": "delete"}, "source": {"value": "json", "schema": "s string"}},
    ],
    ids=["dead letters", "upsert", "dedupe", "deletes"],
)
def test_a_role_without_rights_runs_with_what_was_prepared(flow: Guarded, parts: dict[str, Any]) -> None:
    parts = dict(parts)
    if "source" in parts:  # a delete needs its key outside of the value
        (flow.folder / "shape.py").write_text(
            "import pyarrow.compute as pc\n"
            "def keyed(events):\n"
            "    id_ = events.column('key').cast('string').cast('int64')\n"
            "    return events.select(['_from']).add_column(0, 'id', id_)\n"
        )
        parts |= {"source": {"topic": flow.name}, "transform": {"arrow": "shape.py:keyed"}}
    flow.produce(range(20))
    with pytest.raises(Refused, match="denied"):
        flow.run_as_role(**parts)
    flow.prepare("--role", flow.role, **parts)
    assert flow.run_as_role(**parts).rows == 20
    if parts.get("on_error"):
        flow.produce([20], instead={20: b"not json"})
        assert flow.run_as_role(**parts).dead == 1
    if "shape.py" in str(parts):
        flow.remove([3])
        flow.run_as_role(**parts)
        assert 3 not in flow.landed()


@pytest.mark.proof
def test_a_staged_transform_runs_with_what_was_prepared(flow: Guarded) -> None:
    parts = {"engine": "spark", "transform": {"sql": "SELECT id % 2 AS half, count(*) AS n FROM events GROUP BY 1"}}
    flow.kafka = {"bootstrap.servers": flow.stack.bootstrap_servers}
    flow.produce(range(20))
    flow.prepare("--role", flow.role, **parts)
    assert flow.run_as_role(**parts).rows == 2


@pytest.mark.proof
def test_a_stream_with_state_runs_with_what_was_prepared_in_a_ledger_that_is_older(flow: Guarded) -> None:
    """The ledger's table of streams came later: who may not make it is told who can."""
    flow.produce(range(20))
    flow.prepare("--role", flow.role)
    flow.run_as_role()
    parts: dict[str, Any] = {
        "name": f"{flow.name}_counted",
        "engine": "spark",
        "transform": {"sql": "SELECT id % 2 AS half, count(*) AS n FROM events GROUP BY 1", "output_mode": "update"},
        "checkpoint": str(flow.folder / "state"),
        "options": {"table": f"{flow.name}_counted"},
    }
    flow.kafka = {"bootstrap.servers": flow.stack.bootstrap_servers}
    flow.prepare("--role", flow.role, **parts)
    flow.sql(f"DROP TABLE {flow.ledger}.streams")
    with pytest.raises(Refused, match="denied"):
        flow.run_as_role(**parts)
    assert flow.prepare("--role", flow.role, **parts)["made"] == [f"{flow.ledger}.streams"]
    assert flow.run_as_role(**parts).rows == 2
    assert not flow.may("DELETE", f"{flow.ledger}.streams")


def test_it_says_what_it_did_and_the_second_time_that_nothing_was_left_to_do(flow: Guarded) -> None:
    own = [f"{flow.ledger}.{table}" for table in ("pipelines", "positions", "spans")]
    first = flow.prepare(on_error="dead_letter")
    assert (first["made"], first["there"], first["granted"]) == ([*own, flow.name, f"{flow.name}_dead"], [], [])
    second = flow.prepare("--role", flow.role, on_error="dead_letter")
    assert (second["made"], second["there"]) == ([], first["made"])
    positions = {"on": "table", "name": f"{flow.ledger}.positions", "rights": ["SELECT", "INSERT", "UPDATE"]}
    assert positions in second["granted"]
    third = flow.prepare("--role", flow.role, on_error="dead_letter")
    assert (third["made"], third["granted"]) == ([], [])
    assert [table for table in first["made"] if flow.may("DELETE", table)] == [f"{flow.ledger}.spans"]
    assert not [table for table in first["made"] if flow.may("TRUNCATE", table)]
    assert not flow.may("UPDATE", flow.name)


@pytest.mark.proof
def test_without_any_one_of_the_rights_the_role_cannot_run(flow: Guarded) -> None:
    flow.produce(range(10))
    flow.prepare("--role", flow.role, options=KEYED)
    flow.run_as_role(options=KEYED)
    for right, table in [
        ("SELECT", f"{flow.ledger}.pipelines"),
        ("INSERT", f"{flow.ledger}.pipelines"),
        ("UPDATE", f"{flow.ledger}.pipelines"),
        ("SELECT", f"{flow.ledger}.positions"),
        ("INSERT", f"{flow.ledger}.positions"),
        ("UPDATE", f"{flow.ledger}.positions"),
        ("INSERT", f"{flow.ledger}.spans"),
        ("SELECT", flow.name),
        ("INSERT", flow.name),
        ("UPDATE", flow.name),
    ]:
        flow.sql(f"REVOKE {right} ON {table} FROM {flow.role}")
        flow.produce(range(10))
        with pytest.raises(Refused, match="denied"):
            flow.run_as_role(options=KEYED)
        assert len(flow.prepare("--role", flow.role, options=KEYED)["granted"]) == 1
    flow.run_as_role(options=KEYED)
    assert sorted(flow.landed()) == list(range(10))


def test_what_cannot_be_granted_is_said_and_not_left_out(flow: Guarded) -> None:
    with pytest.raises(Usage, match="no role 'nobody_at_all'"):
        prepare(load(flow.spec()), "nobody_at_all")
    flow.prepare("--role", flow.role)
    other = f"{flow.role}_2"
    flow.sql(f"CREATE ROLE {other}")
    try:
        with pytest.raises(Refused, match="grant"):
            prepare(load(flow.spec(flow.role_dsn)), other)
    finally:
        flow.sql(f"DROP ROLE {other}")


def test_a_folder_and_a_database_are_two_things() -> None:
    for words in (["init"], ["init", "shop", "--db"], ["init", "shop", "--role", "carrier"]):
        found = CliRunner().invoke(app, words)
        assert isinstance(found.exception, Usage), words
