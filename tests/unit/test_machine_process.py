"""Processes are real here; they only sleep, and are told by their birth, never by their pid alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from fencepost.machine import process
from fencepost.machine.process import Identity, Program

STUBBORN = (
    "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); signal.pause()"
)
PATIENT = "import signal; print('here', flush=True); signal.pause()"
HEADLESS = """
import ctypes, threading
threading.Thread(target=threading.Event().wait).start()
print("here", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {PATIENT!r}])"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def spawned(log: Path) -> Iterator[list[Identity]]:
    """What a test starts; ended whatever happens."""
    found: list[Identity] = []
    yield found
    process.end(found, signal.SIGKILL, 10)


def python(code: str, log: Path) -> Program:
    return Program([sys.executable, "-c", code], folder=log.parent, log=log)


def started(code: str, log: Path, spawned: list[Identity]) -> Identity:
    """A process that has said that it is there."""
    spawned.append(process.spawn(python(code, log)))
    assert process.until(lambda: "here" in log.read_text(), 20)
    return spawned[-1]


def test_a_process_is_known_by_its_birth(log: Path, spawned: list[Identity]) -> None:
    identity = started(PATIENT, log, spawned)
    assert process.identify(identity.pid) == identity
    impostor = replace(identity, birth="another boot/1")
    assert not process.alive(impostor)
    assert not process.send(impostor, signal.SIGKILL)
    assert process.end([impostor], signal.SIGKILL, 1) == []
    assert process.alive(identity)


def test_it_has_a_session_of_its_own(log: Path, spawned: list[Identity]) -> None:
    """So that Ctrl-C on our terminal does not reach it."""
    import os

    identity = started(PATIENT, log, spawned)
    assert os.getsid(identity.pid) == identity.pid != os.getsid(0)


def test_a_child_that_ended_is_gone_though_nobody_waited() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        assert process.until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE, 20)
        assert process.identify(child.pid) is None


@pytest.mark.skipif(sys.platform != "linux", reason="threads are seen in /proc")
def test_one_whose_first_thread_is_gone_is_still_there(log: Path, spawned: list[Identity]) -> None:
    """As a killed Java is for a moment: it still holds its ports."""
    identity = started(HEADLESS, log, spawned)
    assert process.until(lambda: psutil.Process(identity.pid).status() == psutil.STATUS_ZOMBIE, 20)
    assert process.alive(identity)
    assert process.end([identity], signal.SIGKILL, 20) == []
    assert not process.alive(identity)


def test_one_that_is_asked_ends(log: Path, spawned: list[Identity]) -> None:
    identity = started(PATIENT, log, spawned)
    assert process.end([identity], signal.SIGTERM, 20) == []
    assert not process.alive(identity)


def test_one_that_does_not_listen_is_killed(log: Path, spawned: list[Identity]) -> None:
    identity = started(STUBBORN, log, spawned)
    assert process.end([identity], signal.SIGTERM, 0.2) == [identity]
    assert not process.alive(identity)


def test_one_that_is_stopped_is_woken_to_end(log: Path, spawned: list[Identity]) -> None:
    identity = started(PATIENT, log, spawned)
    process.send(identity, signal.SIGSTOP)
    assert process.until(lambda: process.stopped(identity), 20)
    assert process.end([identity], signal.SIGTERM, 20) == []


def test_descendants_go_with_it(log: Path, spawned: list[Identity]) -> None:
    identity = started(PARENT, log, spawned)
    members = process.family(identity)
    assert len(members) == 2
    assert process.send_all(identity, signal.SIGSTOP) == members
    assert process.until(lambda: all(map(process.stopped, members)), 20)
    process.send_all(identity, signal.SIGKILL)
    assert process.until(lambda: not any(map(process.alive, members)), 20)
    assert process.family(identity) == []


def test_an_errand_does_not_outlive_its_block(log: Path) -> None:
    with process.finishing(python(PARENT, log)) as running:
        assert process.until(lambda: "here" in log.read_text(), 20)
        identity = process.identify(running.pid)
        assert identity
        members = process.family(identity)
        assert len(members) == 2
    assert process.until(lambda: not any(map(process.alive, members)), 20)


def test_an_errand_is_told_what_to_do(log: Path) -> None:
    with process.finishing(python("print(input()[::-1])", log), told="desserts\n") as running:
        assert running.wait() == 0
    assert log.read_text() == "stressed\n"


def test_a_long_log_is_put_aside(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_LOG_LIMIT", 10)
    for text in ("a" * 20, "b"):
        with process.finishing(python(f"print({text!r})", log)) as running:
            running.wait()
    assert log.read_text() == "b\n"
    assert log.with_suffix(".old").read_text() == "a" * 20 + "\n"
