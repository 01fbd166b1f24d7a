"""Pipelines that are found without their files, on the real ledger and by their groups."""

from __future__ import annotations

import json
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
        page_with(client, "/", name)
        assert "No partition has that in its name" in client.get(f"/pipeline?name={name}&q=nothing").text
        sorted_ = client.get(f"/pipeline?name={name}&sort=records&dir=desc&q={topic}").text
        assert f"{topic}/0</a>" in sorted_
        assert 'aria-sort="descending"' in sorted_
        assert client.get("/api/pipeline/batches", params={"name": name}).json()["series"][0]["values"][-1] >= 0
        assert sum(client.get("/api/pipeline/batches", params={"name": name}).json()["series"][0]["values"]) == 10
        assert client.get("/pipeline?name=nobody").status_code == 404


def test_an_event_is_followed_from_its_sender_to_where_it_landed(stack: Stack, pipeline: Path, tmp_path: Path) -> None:
    spec = yaml.safe_load(pipeline.read_text())
    name, topic, journal = spec["name"], spec["source"]["topic"], tmp_path / "journal"
    sent = here("produce", "--topic", topic, "--count", 3, "--journal", journal, *at(stack))
    assert sent.code == 0
    told = {"FENCEPOST_WEB_DSN": stack.dsn}
    with (
        served(*at(stack), "--journal", journal, folder=tmp_path, env=told) as address,
        browser_of(address) as client,
    ):
        found = client.get(f"/api/topics/{topic}/messages").json()["messages"][0]
        (id_,) = [one["value"]["text"] for one in found["headers"] if one["name"] == "fencepost.id"]
        asked = {"q": id_, "topic": topic, "by": "id"}
        (waiting,) = client.get("/api/events", params=asked).json()["records"]
        assert (waiting["journal"], waiting["visibility"]) == ("acked", "committed")
        (receipt,) = [one for one in waiting["pipelines"] if one["pipeline"] == name]
        assert (receipt["receipt"], receipt["behind"]) == ("waiting", 3)
        assert here("run", "--once", "--spec", pipeline).code == 0
        page = page_with(client, f"/topics/{topic}/messages", f'class="pill ok" href="/pipeline?name={name}"')
        assert "waiting" not in page
        page_with(client, f"/events?by=id&topic={topic}&q={id_}", "processed")
        (keyed,) = client.get("/api/events", params={"q": "3", "topic": topic, "by": "key"}).json()["records"]
        assert (keyed["offset"], keyed["journal"]) == (3, None)
        nothing = client.get("/api/events", params={**asked, "q": "nobody"}).json()
        assert (nothing["records"], nothing["searched_everything"]) == ([], True)
        for wrong in ({"topic": topic}, {"q": "x"}, {"q": "x", "topic": topic, "by": "z"}, {"q": "x", "topic": "a/b"}):
            assert client.get("/api/events", params=wrong).status_code == 400, wrong


def test_with_the_pipelines_file_a_dead_letter_says_why(stack: Stack, pipeline: Path, tmp_path: Path) -> None:
    spec = yaml.safe_load(pipeline.read_text())
    topic = spec["source"]["topic"]
    pipeline.write_text(yaml.safe_dump({**spec, "on_error": "dead_letter", "dead_letters": {"max_share": 1}}))
    written(stack.bootstrap_servers, topic, ("bad", "<b>no JSON</b>"), ("good", '{"id": 8}'))
    assert here("run", "--once", "--spec", pipeline).code == 0
    letter = here("receipt", "--spec", pipeline, "--partition", 0, "--offset", 10, "--check", "--format", "json")
    why = json.loads(letter.out)["note"]
    assert "id" in why or "JSON" in why
    with served(*at(stack), "--spec", pipeline, folder=tmp_path) as address, browser_of(address) as client:
        fates = {
            key: [
                (each["receipt"], each["note"])
                for record in client.get("/api/events", params={"q": key, "topic": topic, "by": "key"}).json()[
                    "records"
                ]
                for each in record["pipelines"]
            ]
            for key in ("bad", "good")
        }
        assert fates == {"bad": [("dead", why)], "good": [("landed", "")]}
        page = client.get("/events", params={"q": "bad", "topic": topic, "by": "key"}).text
        assert "dead; " in page
        assert "<b>no JSON" not in page
    twice = here("web", "--spec", pipeline, "--spec", pipeline, *at(stack))
    assert (twice.code, "two files declare" in twice.err) == (2, True)


def at(stack: Stack) -> tuple[str, str]:
    return "--bootstrap-server", stack.bootstrap_servers


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
