"""Programs that are made to die: held, let go, killed with everything that they started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fencepost.errors import Unreachable
from fencepost.lab.keeper import TOKEN, started_here
from fencepost.lab.programs import Program, program
from fencepost.machine import process

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "lab_parent.py").write_text(PARENT)
    (tmp_path / "lab_short.py").write_text("import sys; print('words'); sys.exit(int(sys.argv[1]))")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "lab_parent"


def child_of(running: Program, log: Path) -> process.Identity:
    assert running.wait_for(lambda: log.exists() and log.read_text().endswith("\n"))
    identity = process.identify(int(log.read_text()))
    assert identity
    return identity


def test_it_is_held_and_let_go_with_its_child_and_killed_with_it(module: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with program(module, [], log) as running:
        child = child_of(running, log)
        running.stop_tree()
        assert process.stopped(child)
        running.go_on()
        assert process.until(lambda: not process.stopped(child), 10.0)
        assert running.code is None
        assert running.kill_tree() == 2
        assert not process.alive(child)
        assert running.code == -9


def test_what_is_left_before_its_end_is_killed_with_the_block(module: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with program(module, [], log) as running:
        child = child_of(running, log)
    assert not process.alive(child)


def test_how_it_ended_is_told(module: str, tmp_path: Path) -> None:
    assert module
    for code in (0, 4):
        with program("lab_short", [str(code)], tmp_path / f"log-{code}") as running:
            assert running.ended() == code
    with program("lab_short", ["3"], tmp_path / "log-3") as running, pytest.raises(Unreachable, match="with 3: words"):
        running.finish()


def test_what_has_the_token_is_found_whoever_its_parent_is(module: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with program(module, [], log, {TOKEN: "one-of-a-test"}) as running:
        child = child_of(running, log)
        found = started_here("one-of-a-test")
        assert child in found
        assert os.getpid() not in [one.pid for one in found]
        assert started_here("another") == []
