"""What is remembered survives, is refused when it is damaged, and is changed by one at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencepost.errors import Unreachable, Usage
from fencepost.local import state
from fencepost.local.kafka import Tuning
from fencepost.machine import disk
from fencepost.machine.process import Identity
from fencepost.machine.progress import Silent

HOLDER = """
import sys, pathlib
from fencepost.local import state
from fencepost.machine.progress import Silent
home = pathlib.Path(sys.argv[1])
with state.exclusive(home, Silent()):
    print("held", flush=True)
    if input() == "wipe":
        (home / "lock").unlink()
        home.rmdir()
"""


class Heard(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.first = threading.Event()

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.first.set()


def remembered(home: Path) -> state.State:
    found = state.new(home)
    found.tuning = Tuning(True, {"a": "b"}, {"broker-1/CLIENT": 7})
    found.nodes["broker-1"].ports = {"CLIENT": 9091}
    found.nodes["broker-1"].process = Identity(42, "boot/1")
    return found


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    written = remembered(tmp_path)
    state.save(tmp_path, written)
    assert state.load(tmp_path) == written


def test_every_cut_of_the_file_is_refused(tmp_path: Path) -> None:
    state.save(tmp_path, remembered(tmp_path))
    whole = state.path(tmp_path).read_bytes()
    for size in range(len(whole)):
        state.path(tmp_path).write_bytes(whole[:size])
        assert state.load(tmp_path) is None, size


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 99}', b"\0" * 512, b"\xff\xfe", b"null"])
def test_anything_else_is_refused(tmp_path: Path, content: bytes) -> None:
    state.path(tmp_path).write_bytes(content)
    assert state.load(tmp_path) is None


def test_a_state_of_other_processes_is_refused(tmp_path: Path) -> None:
    written = remembered(tmp_path)
    del written.nodes["broker-3"]
    state.save(tmp_path, written)
    assert state.load(tmp_path) is None


def test_a_new_state_belongs_to_the_data_that_is_there(tmp_path: Path) -> None:
    data = tmp_path / "kafka" / "broker-2" / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=2\n")
    assert state.new(tmp_path).cluster_id == "abc"


@contextmanager
def waited_for(home: Path, last_word: str) -> Iterator[None]:
    """Get the lock after another process, which ends with a word when it is waited for."""
    heard = Heard()
    argv = [sys.executable, "-c", HOLDER, str(home)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"

        def release() -> None:
            heard.first.wait(20)
            holder.communicate(f"{last_word}\n")

        thread = threading.Thread(target=release)
        thread.start()
        with state.exclusive(home, heard):
            thread.join()
            assert [note.replace(str(holder.pid), "PID") for note in heard.notes] == [
                f"another process (PID) is starting or stopping {home}: waiting for it"
            ]
            yield


def test_a_second_process_says_that_it_waits(tmp_path: Path) -> None:
    with waited_for(tmp_path / "home", "done"):
        assert (tmp_path / "home" / "lock").read_text() == str(os.getpid())


def test_a_lock_that_went_with_its_home_is_not_one(tmp_path: Path) -> None:
    """The holder wipes the home: whoever waited must not go on with the file that is gone."""
    with waited_for(tmp_path / "home", "wipe"):
        assert (tmp_path / "home" / "lock").read_text() == str(os.getpid())


def test_a_file_is_not_a_home(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(Usage, match="is not a folder"), state.exclusive(tmp_path / "home", Silent()):
        pass


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.write(tmp_path / "file", "old", mode=0o600)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(Unreachable, match="No space left on device: make room"), disk.explained(tmp_path):
        disk.write(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "old"
