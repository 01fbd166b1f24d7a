"""Pipelines that are found without their files, on the real ledger and by their groups."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import httpx
import pytest
import yaml

from fencepost.local import Stack
from producing.topics import Topics
from support.commands import here
from web.serving import browser_of, page_with, served
from web.transactions import written


@pytest.fixture
def pipeline(stack: Stack, topics: Topics, tmp_path: Path) -> Path:
    """A file; one that has run once over ten events."""
    topic, name = topics.make(partitions=1), f"p{uuid4().hex[:12]}"
    written(stack.bootstrap_servers, topic, *((str(n), f'{{"id": {n}}}') for n in range(10)))
    file = tmp_path / "fencepost.yml"
    spec = {
        "name": name, "guarantee": "exactly-once", "engine": "python",
        "kafka": {"bootstrap.servers": stack.bootstrap_servers},
        "source": {"topic": topic, "value": "json", "schema": "id long"},
        "sink": {"format": "postgres", "options": {"dsn": stack.dsn, "table": name, "ledger_schema": f"s_{name}"}},
    }  # fmt: skip
    file.write_text(yaml.safe_dump(spec))
    assert here("run", "--once", "--spec", file).code == 0
    return file


def test_it_is_found_by_its_ledger_and_shown_with_its_audit(
    stack: Stack, pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = yaml.safe_load(pipeline.read_text())
    name, topic = spec["name"], spec["source"]["topic"]
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path / "cache"))
    told = {"FENCEPOST_WEB_DSN": stack.dsn}
    with (
        served("--bootstrap-server", stack.bootstrap_servers, folder=tmp_path, env=told) as address,
        browser_of(address) as client,
    ):
        found = client.get("/api/pipeline", params={"name": name}).json()
        assert (found["guarantee"], found["epoch"], found["topics"]) == ("exactly-once", 1, [topic])
        assert found["lag_records"] == 0
        assert [one["holds"] for one in found["hops"]] == [False, True, True]
        assert found["last_audit"] is None
        written(stack.bootstrap_servers, topic, ("11", '{"id": 11}'))
        assert here("audit", "--spec", pipeline).code == 0
        page = page_with(client, f"/pipeline?name={name}", "expected 10, landed 10")
        assert "<svg" in page
        assert name in client.get("/").text
        assert client.get("/api/pipeline/batches", params={"name": name}).json()["series"][0]["values"][-1] >= 0
        assert sum(client.get("/api/pipeline/batches", params={"name": name}).json()["series"][0]["values"]) == 10
        assert client.get("/pipeline?name=nobody").status_code == 404


def test_without_a_ledger_its_group_is_there(web: httpx.Client, pipeline: Path) -> None:
    name = yaml.safe_load(pipeline.read_text())["name"]
    page_with(web, "/pipelines", name)
    found = web.get("/api/pipeline", params={"name": name}).json()
    assert (found["ledger"], found["guarantee"], found["lag_records"]) == (None, None, 0)


def test_a_ledger_that_cannot_be_reached_is_told_and_its_password_is_not(stack: Stack, tmp_path: Path) -> None:
    told = {"FENCEPOST_WEB_DSN": "host=127.0.0.1 port=1 user=u password=canary-of-the-ledger dbname=d"}
    with (
        served("--bootstrap-server", stack.bootstrap_servers, folder=tmp_path, env=told) as address,
        browser_of(address) as client,
    ):
        page = client.get("/pipelines")
        assert page.status_code == 200
        assert "PostgreSQL could not connect" in page.text
        assert client.get("/api/pipelines").status_code == 503
        assert "canary" not in page.text + client.get("/api/pipelines").text + client.get("/").text
