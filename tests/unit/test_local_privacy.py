"""What others may read of a stack's home: nothing, whatever was there before."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fencepost.local import privacy, state
from fencepost.machine import disk, process
from fencepost.machine.process import Program
from fencepost.machine.progress import Silent

OURS = ("kafka", "lock", "state.json", "postgres.log", "passfile")


@pytest.fixture
def loose(tmp_path: Path) -> Path:
    """A home as an earlier version made it."""
    home = tmp_path / "home"
    (home / "kafka" / "broker-1").mkdir(parents=True)
    for name in ("lock", "state.json", "postgres.log", "kafka/broker-1/out.log", "kafka/broker-1/server.log"):
        (home / name).touch()
        (home / name).chmod(0o644)
    for folder in (home, home / "kafka"):
        folder.chmod(0o755)
    return home


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_an_old_home_is_closed(loose: Path) -> None:
    privacy.tighten(loose, OURS)
    assert (mode(loose), mode(loose / "kafka")) == (privacy.mode(), 0o700)
    assert {mode(path) for path in loose.rglob("*") if path.is_file()} == {0o600}


def test_a_folder_with_other_things_in_it_stays_as_open_as_it_is(loose: Path) -> None:
    (loose / "papers").touch()
    (loose / "papers").chmod(0o644)
    privacy.tighten(loose, OURS)
    assert (mode(loose), mode(loose / "kafka")) == (0o755, 0o700)
    assert (mode(loose / "papers"), mode(loose / "postgres.log")) == (0o644, 0o600)


def test_what_is_closed_already_is_not_opened(loose: Path) -> None:
    loose.chmod(0o500)
    privacy.tighten(loose, OURS)
    assert mode(loose) == 0o500
    loose.chmod(0o700)


def test_a_link_is_left_alone(loose: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / "elsewhere").chmod(0o644)
    (loose / "postgres.log").unlink()
    (loose / "postgres.log").symlink_to(tmp_path / "elsewhere")
    privacy.tighten(loose, OURS)
    assert mode(tmp_path / "elsewhere") == 0o644


def test_a_new_home_is_closed_from_the_start(tmp_path: Path) -> None:
    with state.exclusive(tmp_path / "above" / "home", Silent()):
        assert mode(tmp_path / "above" / "home") == privacy.mode()
        assert mode(tmp_path / "above" / "home" / "lock") == 0o600


def test_a_program_gets_a_clean_environment_and_writes_for_us_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "hunter2")
    code = "import os; print(sorted(os.environ)); open('made', 'w')"
    program = Program([sys.executable, "-c", code], folder=tmp_path, log=tmp_path / "log", env={"MINE": "1"})
    with process.finishing(program) as running:
        assert running.wait() == 0
    told = (tmp_path / "log").read_text()
    assert "MINE" in told
    assert "PATH" in told
    assert "A_SECRET" not in told
    assert (mode(tmp_path / "log"), mode(tmp_path / "made")) == (0o600, 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_for_another_account_never_follows_a_name_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account puts links in place of every name that root is about to use."""
    theirs, precious = tmp_path / "theirs", tmp_path / "precious"
    theirs.mkdir()
    precious.write_text("root's")
    for name in ("password", ".password.draft"):
        (theirs / name).symlink_to(precious)
    real = os.fsync

    def meanwhile(handle: int) -> None:
        real(handle)
        (theirs / "password").unlink(missing_ok=True)
        (theirs / "password").symlink_to(precious)

    monkeypatch.setattr("os.fsync", meanwhile)
    disk.write(theirs / "password", "secret", owner=(65534, 65534))
    assert (precious.stat().st_uid, precious.read_text()) == (0, "root's")
    assert ((theirs / "password").lstat().st_uid, mode(theirs / "password")) == (65534, 0o600)
