"""The lab's runs on the page, from folders alone: nothing that lies there runs, or hides what is whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from fencepost.lab.record import HISTORY, VERDICT, History
from fencepost.web.answers import Answers
from fencepost.web.app import application
from fencepost.web.lab_runs import LARGEST, read_runs
from fencepost.web.live import Streams
from fencepost.web.safety import Safety
from fencepost.web.state import Beside, Connections, State

HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[2J"


def trial(setting: str, doubled: int) -> dict[str, Any]:
    witness = {"fired": 1, "in_flight": 50, "what": HOSTILE}
    counts = {"sent": 100, "landed": 100 + doubled, "lost": 0, "duplicated": doubled}
    return {"setting": setting, **counts, "anomalies": {"D2": doubled} if doubled else {}, "witness": witness}


def verdict(**other: Any) -> dict[str, Any]:
    told = {"name": "dies", "verdict": "holds", "reason": HOSTILE, "fault": 7, "tells": HOSTILE, "seconds": 3.2}
    kind = {"guarantee": "exactly-once", "engine": "python", "sink": "postgres", "command": "fencepost lab run dies"}
    trials = {"guarded": trial("exactly-once", 0), "control": trial("at-least-once", 50)}
    return {**told, **kind, **trials, **other}


def made(home: Path, told: object = None, name: str = "dies") -> Path:
    history = History.begin(home, name, lambda _line: None)
    history.tell("100 events sent", kind="sent", lane="producer", run="guarded")
    history.tell(HOSTILE, kind="fault", lane="driver", run="guarded")
    if told is not None:
        (history.folder / VERDICT).write_text(told if isinstance(told, str) else json.dumps(told))
    return history.folder


def page_of(home: Path | None) -> TestClient:
    state = State(Connections({"bootstrap.servers": "127.0.0.1:1"}), Answers(), beside=Beside(lab=home))
    return TestClient(application(state, Safety({"127.0.0.1"}, None, changes=False), Streams()), "http://127.0.0.1")


def test_a_run_is_listed_with_its_verdict_and_told_with_its_timeline(tmp_path: Path) -> None:
    folder, client = made(tmp_path, verdict()), page_of(tmp_path)
    listed = client.get("/lab").text
    assert f"/lab/run?name={folder.name}" in listed
    assert '<span class="pill ok">holds</span>' in listed
    shown = client.get("/lab/run", params={"name": folder.name}).text
    assert '<section class="timeline"><h2>Guarded: exactly-once</h2><svg' in shown
    assert "D2 50" in shown
    (fact,) = client.get("/api/lab").json()["runs"]
    assert (fact["scenario"], fact["verdict"]["control"]["duplicated"]) == ("dies", 50)
    told = client.get("/api/lab/run", params={"name": folder.name}).json()
    assert [line["kind"] for line in told["history"]] == ["sent", "fault"]


def test_what_stands_in_a_run_stays_text(tmp_path: Path) -> None:
    folder, client = made(tmp_path, verdict()), page_of(tmp_path)
    for address in ("/lab", f"/lab/run?name={folder.name}"):
        text = client.get(address).text
        assert "<img" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text


@pytest.mark.parametrize(
    "told",
    [
        "",
        "[]",
        "{",
        "null",
        '{"name": "dies"}',
        "\x00",
        json.dumps(verdict(guarded=None)),
        json.dumps(verdict(fault="seven")),
        json.dumps(verdict(seconds=float("nan"))),
        json.dumps(verdict(guarded={**trial("x", 0), "sent": 10**400})),
    ],
)
def test_a_run_whose_verdict_cannot_be_read_hides_no_other(tmp_path: Path, told: str) -> None:
    spoiled, _ = made(tmp_path, told, "spoiled"), made(tmp_path, verdict())
    client = page_of(tmp_path)
    assert {one["scenario"]: bool(one["verdict"]) for one in client.get("/api/lab").json()["runs"]} == {
        "spoiled": False,
        "dies": True,
    }
    assert "it came to no verdict, or is under way" in client.get("/lab/run", params={"name": spoiled.name}).text


@pytest.mark.parametrize("line", ["{", "[]", '"text"', '{"at": "soon", "kind": 1, "run": 2, "text": 3}', "\x00"])
def test_a_history_that_cannot_be_read_is_said(tmp_path: Path, line: str) -> None:
    folder, client = made(tmp_path, verdict()), page_of(tmp_path)
    with (folder / HISTORY).open("a") as file:
        file.write(line + "\n")
    answer = client.get("/lab/run", params={"name": folder.name})
    assert (answer.status_code, f"the history of {folder.name} cannot be read" in answer.text) == (400, True)
    assert client.get("/lab").status_code == 200


LINE = '{"at": 1, "time": 1, "kind": "fault", "lane": "lab", "run": "guarded", "text": "it fell"'


@pytest.mark.parametrize(
    "line",
    [
        "[" * 200_000,
        LINE.replace('"at": 1', '"at": NaN') + "}",
        LINE.replace('"at": 1', '"at": 1' + "0" * 400) + "}",
        LINE.replace('"time": 1', '"time": 1' + "0" * 400) + "}",
        LINE + ', "lost": [1], "lost_count": 1e400}',
        LINE + ', "more": ' + "[" * 900 + "]" * 900 + "}",
    ],
)
def test_numbers_and_nests_that_no_run_has_are_no_fault_of_the_server(tmp_path: Path, line: str) -> None:
    folder, client = made(tmp_path, verdict()), page_of(tmp_path)
    with (folder / HISTORY).open("a") as file:
        file.write(line + "\n")
    for address in ("/lab/run", "/api/lab/run"):
        assert client.get(address, params={"name": folder.name}).status_code == 400


@pytest.mark.parametrize("news", ['{"event": "batch", "time": 1, "rows": 1e400}', "[" * 200_000])
def test_news_that_no_carrier_wrote_draw_nothing(tmp_path: Path, news: str) -> None:
    folder = made(tmp_path, verdict())
    (folder / "guarded").mkdir()
    (folder / "guarded" / "news-1.jsonl").write_text(news + "\n")
    assert page_of(tmp_path).get("/lab/run", params={"name": folder.name}).status_code == 200


@pytest.mark.parametrize(("name", "code"), [(VERDICT, 200), (HISTORY, 400), ("guarded/news-1.jsonl", 200)])
def test_a_pipe_among_the_files_of_a_run_holds_no_page_up(tmp_path: Path, name: str, code: int) -> None:
    folder = made(tmp_path, verdict())
    (folder / "guarded").mkdir()
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    client = page_of(tmp_path)
    assert client.get("/lab").status_code == 200
    assert client.get("/lab/run", params={"name": folder.name}).status_code == code


def test_a_history_of_many_megabytes_is_not_shown(tmp_path: Path) -> None:
    folder, client = made(tmp_path, verdict()), page_of(tmp_path)
    with (folder / HISTORY).open("ab") as file:
        file.truncate(LARGEST + 1)
    assert "is too long to be shown" in client.get("/lab/run", params={"name": folder.name}).text


def test_a_control_that_points_elsewhere_leads_nowhere(tmp_path: Path) -> None:
    made(tmp_path, verdict(control={**trial("at-least-once", 50), "run": "../../elsewhere"}))
    assert read_runs(tmp_path)[0].picture("control") == ""


@pytest.mark.parametrize("name", ["", "../..", "nothing", "\x00", "a" * 5_000])
def test_only_a_run_that_is_listed_is_looked_up(tmp_path: Path, name: str) -> None:
    made(tmp_path, verdict())
    assert page_of(tmp_path).get("/lab/run", params={"name": name}).status_code == 404


def test_without_runs_it_says_how_to_make_one(tmp_path: Path) -> None:
    for home in (None, tmp_path, tmp_path / "nothing"):
        assert "The lab has no runs here" in page_of(home).get("/lab").text
