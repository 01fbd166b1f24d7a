"""One stack through everything that can happen to it between two commands."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from fencepost.local import state
from fencepost.machine import process
from stack.commands import Keepsake, processes_of, run, standing, status, up


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A name that breaks whatever joins words without care."""
    home = tmp_path_factory.mktemp("stack") / "a home, with 'ünusual' letters"
    os.environ["FENCEPOST_CANARY"] = "a secret of whoever starts it"
    yield home
    del os.environ["FENCEPOST_CANARY"]
    run("down", "--wipe", "--home", str(home))
    assert processes_of(home) == []


def test_up_returns_when_everything_answers(home: Path) -> None:
    found = up(home).status
    assert [node["state"] for node in found["nodes"]] == ["up"] * 5
    assert all(node["pid"] and node["port"] and node["memory"] > 2**20 for node in found["nodes"])
    assert sum(node["leaders"] or 0 for node in found["nodes"]) == 8  # two internal topics of four partitions
    Keepsake.leave(found).check(found)


def test_the_password_is_in_the_passfile_and_nowhere_else(home: Path) -> None:
    found = standing(home)
    password = (home / "passfile").read_text().strip().rpartition(":")[2]
    assert (home / "passfile").stat().st_mode & 0o777 == 0o600
    assert password not in found.out + found.err + (home / "state.json").read_text()
    wrong = psycopg.conninfo.make_conninfo(found.status["postgres"], passfile=os.devnull)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(wrong)


def test_a_home_is_for_its_owner_alone_and_its_processes_know_no_secret(home: Path) -> None:
    found = standing(home)
    allowed = 0o711 if os.geteuid() == 0 else 0o700  # root's PostgreSQL passes through
    assert home.stat().st_mode & 0o777 == allowed
    inside = [path for path in home.rglob("*") if not path.is_symlink() and "postgres" not in path.parts]
    assert len(inside) > 50
    entered = {home, home / "kafka"}  # what is below a closed folder is out of reach
    loose = [path for path in inside if path.parent in entered and path.stat().st_mode & 0o077 and path.is_file()]
    assert [path.name for path in loose] == [".gitignore"]
    assert (home / "kafka").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in home.rglob("*.log") if path.is_file()} == {0o600}
    for pid in found.pids.values():
        assert "FENCEPOST_CANARY" not in psutil.Process(pid).environ()


def test_up_twice_is_up_once(home: Path) -> None:
    assert standing(home).pids == up(home).pids


def test_status_is_text_for_people(home: Path) -> None:
    standing(home)
    shown = run("stack", "status", "--home", str(home))
    assert shown.code == 0
    for word in ("controller", "broker-1", "broker-2", "broker-3", "postgres", "bootstrap.servers", "leaders", "MB"):
        assert word in shown.out


def test_killed_processes_are_named_and_started_again_with_their_data(home: Path) -> None:
    found = standing(home)
    keepsake = Keepsake.leave(found.status)
    for pid in found.pids.values():
        assert pid
        os.kill(pid, signal.SIGKILL)
    for pid in found.pids.values():
        assert process.until(lambda pid=pid: process.identify(pid) is None, 10)  # type: ignore[misc]
    seen = status(home)
    assert seen.code == 3
    assert [node["state"] for node in seen.status["nodes"]] == ["down"] * 5
    assert "controller, broker-1, broker-2, broker-3, postgres" in seen.complaint
    assert "fencepost up" in seen.complaint
    again = up(home)
    assert not set(again.pids.values()) & set(found.pids.values())
    keepsake.check(again.status)


@pytest.mark.proof
def test_a_killed_process_alone_is_started_alone(home: Path) -> None:
    found = standing(home)
    os.kill(found.pids["postgres"] or 0, signal.SIGKILL)
    again = up(home)
    changed = {name for name, pid in again.pids.items() if pid != found.pids[name]}
    assert changed == {"postgres"}


def test_a_stopped_process_is_not_taken_for_one_that_works(home: Path) -> None:
    pid = standing(home).pids["broker-2"] or 0
    os.kill(pid, signal.SIGSTOP)
    try:
        seen = status(home)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert seen.code == 3
    assert {node["name"]: node["state"] for node in seen.status["nodes"]}["broker-2"] == "stopped"


def test_down_never_signals_a_reused_pid_and_keeps_the_data(home: Path) -> None:
    """The record names a process that has the pid now, but was born at another time."""
    keepsake = Keepsake.leave(standing(home).status)
    remembered = state.load(home)
    assert remembered
    real = remembered.nodes["broker-1"].process
    assert real
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        remembered.nodes["broker-1"].process = process.Identity(stranger.pid, real.birth)
        state.save(home, remembered)
        assert {node["name"]: node["state"] for node in status(home).status["nodes"]}["broker-1"] == "down"
        assert run("down", "--home", str(home)).code == 0
        assert stranger.poll() is None
        stranger.kill()
    assert processes_of(home) == []  # the broker that the record did not name was found all the same
    keepsake.check(up(home).status)


@pytest.mark.parametrize("content", ["", '{"version": 1, "cluster_id": "x", "no', '{"version": 99}', "[]", "\0" * 512])
def test_a_damaged_state_file_reads_as_nothing(tmp_path: Path, content: str) -> None:
    state.path(tmp_path).write_text(content)
    assert state.load(tmp_path) is None


@pytest.mark.proof
def test_damaged_state_is_repaired_without_losing_data(home: Path) -> None:
    found = up(home)
    keepsake = Keepsake.leave(found.status)
    whole = state.path(home).read_text()
    state.path(home).write_text(whole[: len(whole) // 2])
    (home / "passfile").write_text("")
    seen = status(home)
    assert seen.code == 3
    assert len(seen.status["orphans"]) >= 5
    again = up(home)
    assert "damaged" in again.err
    keepsake.check(again.status)
    assert not any(psutil.pid_exists(pid or 0) for pid in found.pids.values())


@pytest.mark.proof
def test_a_port_taken_since_is_replaced(home: Path) -> None:
    found = up(home)
    keepsake = Keepsake.leave(found.status)
    assert run("down", "--home", str(home)).code == 0
    remembered = state.load(home)
    assert remembered
    taken = [
        remembered.nodes[name].ports[listener]
        for name, listener in [("controller", "CONTROLLER"), ("broker-1", "CLIENT"), ("postgres", "SQL")]
    ]
    strangers = [socket.create_server(("127.0.0.1", port)) for port in taken]
    try:
        again = up(home)
    finally:
        for stranger in strangers:
            stranger.close()
    kept = {node["name"]: node["port"] for node in again.status["nodes"]}
    before = {node["name"]: node["port"] for node in found.status["nodes"]}
    assert {name for name in kept if kept[name] != before[name]} == {"controller", "broker-1", "postgres"}
    keepsake.check(again.status)


@pytest.mark.proof
def test_processes_that_nothing_remembers_are_ended(home: Path) -> None:
    """As if `up` had been killed between starting them and writing them down."""
    found = up(home)
    remembered = state.load(home)
    assert remembered
    for name in ("broker-3", "postgres"):
        remembered.nodes[name].process = None
    state.save(home, remembered)
    again = up(home)
    assert "orphaned process" in again.err
    assert {name for name in found.pids if again.pids[name] != found.pids[name]} == {"broker-3", "postgres"}
    assert not psutil.pid_exists(found.pids["broker-3"] or 0)


def test_wipe_removes_the_data_and_nothing_of_others(home: Path) -> None:
    standing(home)
    database = (home / "postgres").resolve()
    (home / "notes.txt").write_text("not the stack's")
    assert run("stack", "down", "--wipe", "--home", str(home)).code == 0
    assert processes_of(home) == []
    assert not database.exists()
    assert [path.name for path in home.iterdir()] == ["notes.txt"]
    (home / "notes.txt").unlink()


def test_status_of_an_empty_home_says_what_to_do(tmp_path: Path) -> None:
    seen = run("stack", "status", "--home", str(tmp_path / "none"))
    assert (seen.code, seen.out) == (3, "")
    assert seen.complaint == f"fencepost: no stack in {tmp_path / 'none'}: `fencepost up` starts one"
    assert json.loads(status(tmp_path / "none").out)["up"] is False
    assert not (tmp_path / "none").exists()
