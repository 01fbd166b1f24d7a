"""A run's folder: written line by line, found by its name, told again; and the page about the last runs."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from html import escape
from pathlib import Path
from time import sleep

import pytest

from fencepost.errors import Usage
from fencepost.lab.catalogue import catalogue, scenarios
from fencepost.lab.record import HISTORY, VERDICT, History, folder_of, history_of, runs, verdict_of
from fencepost.lab.report.page import last_runs, write_report
from fencepost.lab.report.timeline import picture_of
from support.commands import here
from support.lab_made import NAME, TRIAL, made, verdict


def test_what_happened_is_told_in_order(tmp_path: Path) -> None:
    said: list[str] = []
    history = History.begin(tmp_path, NAME, said.append)
    history.tell("first", run="guarded")
    history.tell("second")
    assert [line["text"] for line in history_of(history.folder)] == ["first", "second"]
    assert said[0].endswith("guarded: first")
    assert history.folder.stat().st_mode & 0o077 == 0


def test_a_folder_that_was_there_before_keeps_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine")
    made(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "mine"
    made(tmp_path / "new")
    assert (tmp_path / "new" / ".gitignore").read_text() == "*\n"


def test_a_line_that_a_kill_has_cut_is_left_out(tmp_path: Path) -> None:
    folder = made(tmp_path)
    with (folder / HISTORY).open("a") as file:
        file.write('{"at": 3, "te')
    assert len(list(history_of(folder))) == 4
    assert verdict_of(folder) is None


def test_runs_are_found_by_a_part_of_their_name_or_as_the_last(tmp_path: Path) -> None:
    folder = made(tmp_path, verdict())
    (tmp_path / "something-else").mkdir()
    assert runs(tmp_path) == [folder]
    assert folder_of(tmp_path, "last") == folder_of(tmp_path, "dies-after") == folder
    for wrong in ("nothing", "../etc"):
        with pytest.raises(Usage, match="no run"):
            folder_of(tmp_path, wrong)
    with pytest.raises(Usage, match="lab run NAME"):
        folder_of(tmp_path / "nowhere", "last")


def test_the_page_shows_the_last_run_of_each_scenario(tmp_path: Path) -> None:
    made(tmp_path, verdict("broken"))
    sleep(0.002)  # names have milliseconds
    second = made(tmp_path, verdict())
    sleep(0.002)
    made(tmp_path)  # which never came to a verdict
    assert last_runs(tmp_path)[NAME][0] == second
    path, held = write_report(tmp_path, tmp_path / "out")
    page = path.read_text()
    assert held == 1
    assert f'id="{NAME}"' in page
    assert f"1 of {len(scenarios())} scenarios hold, {len(scenarios()) - 1} were not played." in page
    assert all(escape(catalogue().faults[scenario.fault]) in page for scenario in scenarios().values())


def test_runs_of_ones_own_pipeline_have_a_page_of_their_own(tmp_path: Path) -> None:
    ours = made(tmp_path, verdict("broken"))
    sleep(0.002)  # names have milliseconds
    theirs = made(tmp_path, verdict(pipeline="<b>shop"))
    assert last_runs(tmp_path)[NAME][0] == ours
    assert last_runs(tmp_path, "<b>shop")[NAME][0] == theirs
    assert last_runs(tmp_path, "other") == {}
    path, held = write_report(tmp_path, tmp_path, "<b>shop")
    page = path.read_text()
    assert held == 1
    assert "Pipeline <b>&lt;b&gt;shop</b>: 1 of " in page
    assert f'id="{NAME}"' in page
    assert "stalls-and-wakes-postgres-python-eo: not played" in page
    assert "stalls-and-wakes-kafka-python-eo" not in page  # of another kind than the pipeline


def test_who_asks_for_a_report_of_a_pipeline_that_was_not_played_is_told(tmp_path: Path) -> None:
    made(tmp_path, verdict())
    file = tmp_path / "fencepost.yml"
    file.write_text(
        "{name: shop, guarantee: exactly-once, source: {topic: t}, sink: {format: postgres, options: {table: t}}}"
    )
    told = here("lab", "report", "--pipeline", file, "--home", tmp_path)
    assert told.code == 2
    assert "no run of pipeline 'shop'" in told.err
    assert f"fencepost lab run --pipeline {file}" in told.err


def test_the_page_needs_nothing_else_and_its_policy_allows_nothing_else(tmp_path: Path) -> None:
    made(tmp_path, verdict())
    path, _ = write_report(tmp_path, tmp_path)
    page = path.read_text()
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in page
    assert not re.search(r"<script|<link|<img|https?://|\sstyle=|\son\w+=", page)
    assert "prefers-color-scheme: dark" in style


def test_nothing_of_a_run_is_taken_for_markup(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'&\x1b[31m"
    told = verdict(reason=evil, tells=evil, guarded={**TRIAL, "setting": evil}, command=evil)
    made(tmp_path, told, said=evil)
    path, _ = write_report(tmp_path, tmp_path)
    page = path.read_text()
    assert "<script" not in page
    assert "\x1b" not in page


def test_a_file_of_somebody_else_is_not_written_over(tmp_path: Path) -> None:
    made(tmp_path, verdict())
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(Usage, match="not changed"):
        write_report(tmp_path, tmp_path)
    assert (tmp_path / "index.html").read_text() == "mine"


def test_list_says_what_is_played_and_what_is_not() -> None:
    told = here("lab", "list", "--format", "json").json
    assert [one["name"] for one in told["scenarios"]] == list(scenarios())
    assert {one["fault"] for one in told["not_played"]} >= {27, 28}
    assert all(one["why"] and one["what"] for one in told["not_played"])
    shown = here("lab", "list")
    assert shown.code == 0
    assert NAME in shown.out
    assert "\n\nNot played:\n" in shown.out


@pytest.mark.parametrize(
    "words", [["nothing"], [], ["--all", "--fault", "7"], [NAME, "--all"], ["--fault", "23"], ["--seed", "-1", NAME]]
)
def test_a_run_of_nothing_is_refused_before_anything_starts(tmp_path: Path, words: list[str]) -> None:
    ended = here("lab", "run", *words, "--home", tmp_path / "lab")
    assert ended.code == 2
    assert ended.complaint
    assert not (tmp_path / "lab").exists()


def test_show_tells_a_run_again_and_ends_with_5_where_it_came_to_no_verdict(tmp_path: Path) -> None:
    made(tmp_path, verdict("broken"))
    shown = here("lab", "show", "last", "--home", tmp_path)
    assert (shown.code, "again: fencepost lab run" in shown.out) == (0, True)
    assert here("lab", "report", "--home", tmp_path).code == 0
    other = tmp_path / "other"
    made(other)
    assert here("lab", "show", "last", "--home", other).code == 5
    assert here("lab", "report", "--home", other).code == 2


LINE = '{"at": 1, "time": 1, "kind": "fault", "lane": "lab", "run": "guarded", "text": "it fell"'
SPOILED_LINES = [
    "garbage",
    "[]",
    "{}",
    "[" * 200_000,
    LINE.replace('"at": 1', '"at": "x"') + "}",
    LINE.replace('"at": 1', '"at": 1' + "0" * 400) + "}",
    LINE.replace('"time": 1', '"time": NaN') + "}",
    LINE + ', "lost": [1], "lost_count": 1e400}',
]
SPOILED_VERDICTS = ["", "{}", "[1]", "null", "[" * 200_000, '{"name": "x", "verdict": "great"}']


@pytest.mark.parametrize("line", SPOILED_LINES)
def test_a_history_that_cannot_be_read_is_told_and_takes_nothing_else_along(tmp_path: Path, line: str) -> None:
    folder = made(tmp_path, verdict())
    with (folder / HISTORY).open("a") as file:
        file.write(line + "\n")
    shown = here("lab", "show", "last", "--home", tmp_path)
    assert (shown.code, "cannot be read" in shown.complaint) == (2, True)
    assert here("lab", "report", "--home", tmp_path, "--format", "json").json["green"] == 1
    assert "cannot be read" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize("told", SPOILED_VERDICTS)
def test_a_verdict_that_cannot_be_read_is_none_and_hides_no_other(tmp_path: Path, told: str) -> None:
    made(tmp_path, verdict())
    sleep(0.002)  # names have milliseconds
    (made(tmp_path) / VERDICT).write_text(told)
    assert here("lab", "show", "last", "--home", tmp_path).code == 5
    assert here("lab", "report", "--home", tmp_path, "--format", "json").json["green"] == 1


@pytest.mark.parametrize(
    "trial", [{**TRIAL, "landed": "many"}, {**TRIAL, "sent": "100"}, {**TRIAL, "anomalies": []}, {}]
)
def test_a_verdict_whose_counts_make_no_sense_is_in_no_report(tmp_path: Path, trial: dict[str, object]) -> None:
    made(tmp_path, verdict(guarded=trial))
    assert here("lab", "show", "last", "--home", tmp_path).code == 0
    assert here("lab", "report", "--home", tmp_path).code == 2


@pytest.mark.parametrize("name", [HISTORY, VERDICT])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = made(tmp_path, verdict())
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert here("lab", "show", "last", "--home", tmp_path).code == {HISTORY: 2, VERDICT: 5}[name]


def test_a_picture_is_of_runs_alone(tmp_path: Path) -> None:
    folder = made(tmp_path / "runs", verdict())
    (tmp_path / HISTORY).write_text((folder / HISTORY).read_text())
    assert picture_of(folder, verdict(), "guarded")
    assert picture_of(folder, verdict(guarded={**TRIAL, "run": ".."}), "guarded") == ""


def test_what_to_type_again_stands_on_a_line_of_its_own(tmp_path: Path) -> None:
    made(tmp_path, verdict("broken"))
    assert f"\n  again: fencepost lab run {NAME} --seed 1\n" in here("lab", "show", "last", "--home", tmp_path).out


@pytest.mark.parametrize("words", [["run", NAME], ["compare"], ["soak"]])
def test_a_home_that_is_none_is_refused_before_anything_starts(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_given: object, **_named: object) -> None:
        pytest.fail("a stack was started")

    for module in ("session", "comparing", "soak.soak"):
        monkeypatch.setattr(f"fencepost.lab.{module}.opened", start)
    (tmp_path / "file").touch()
    ended = here("lab", *words, "--home", tmp_path / "file")
    assert (ended.code, "--home DIR" in ended.err) == (2, True)


def test_the_verdict_can_be_read_by_every_parser(tmp_path: Path) -> None:
    folder = made(tmp_path, verdict(reason="\ud800"))
    assert json.loads((folder / "verdict.json").read_text())["name"] == NAME
