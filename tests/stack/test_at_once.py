"""Commands that meet: two at once, one that is interrupted, one that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.local import state
from fencepost.machine import process
from stack.commands import Keepsake, begin, ended, processes_of, run, status, up


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    yield home
    run("down", "--wipe", "--home", str(home))
    assert processes_of(home) == []


def started(home: Path) -> int:
    """How many processes a start has written down so far."""
    remembered = state.load(home)
    return sum(record.process is not None for record in remembered.nodes.values()) if remembered else 0


@pytest.mark.proof
def test_stacks_that_start_at_once_do_not_meet_and_the_same_one_starts_once(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    words = ("up", "--format", "json", "--home")
    try:
        first, elsewhere = begin(*words, str(home)), begin(*words, str(other))
        assert process.until(lambda: started(home) > 0, 30)
        impatient = begin(*words, str(home))
        patient = begin(*words, str(home))
        assert impatient.stderr
        assert "waiting for it" in impatient.stderr.readline()
        impatient.send_signal(signal.SIGINT)
        assert ended(impatient).code == 130  # and what it waited for is left alone
        second = ended(patient)
        one, another = ended(first), ended(elsewhere)
        assert (one.code, second.code, another.code) == (0, 0, 0), (one, second, another)
        assert f"({first.pid}) is starting or stopping {home}: waiting for it" in second.err
        assert second.pids == one.pids
        ports = [{node["port"] for node in found.status["nodes"]} for found in (one, another)]
        assert ports[0].isdisjoint(ports[1])
        Keepsake.leave(one.status).check(one.status)
        assert run("down", "--home", str(home)).code == 0
        assert status(other).code == 0
    finally:
        run("down", "--wipe", "--home", str(other))
    assert processes_of(other) == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.proof)]
)
def test_an_interrupted_start_leaves_nothing_behind(home: Path, number: signal.Signals, code: int) -> None:
    command = begin("up", "--home", str(home))
    assert process.until(lambda: started(home) >= 4, 30)
    database = (home / "postgres").resolve()
    command.send_signal(number)
    done = ended(command)
    assert done.code == code, done
    assert "Traceback" not in done.err
    assert processes_of(home) == []
    assert not home.exists()
    assert not database.exists()


@pytest.mark.proof
def test_an_interrupted_start_keeps_the_data_of_earlier_ones(home: Path) -> None:
    found = up(home)
    keepsake = Keepsake.leave(found.status)
    assert run("down", "--home", str(home)).code == 0
    command = begin("up", "--home", str(home))
    assert process.until(lambda: started(home) >= 2, 30)
    command.send_signal(signal.SIGINT)
    assert ended(command).code == 130
    assert processes_of(home) == []
    keepsake.check(up(home).status)


@pytest.mark.proof
def test_a_killed_start_is_made_up_for_by_the_next(home: Path) -> None:
    command = begin("up", "--home", str(home))
    assert process.until(lambda: started(home) >= 1, 30)
    command.kill()
    ended(command)
    assert processes_of(home) != []
    found = up(home).status
    Keepsake.leave(found).check(found)


TEMPORARY = """
from fencepost.local import Stack
with Stack.temporary() as stack:
    print(stack.home, flush=True)
    input()
"""


@pytest.mark.proof
def test_a_temporary_stack_ends_with_the_process_that_is_terminated() -> None:
    program = [sys.executable, "-c", TEMPORARY]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        home = Path(running.stdout.readline().strip())
        assert processes_of(home)
        running.terminate()
        assert running.wait(60) == 143
    assert processes_of(home) == []
    assert not home.exists()
