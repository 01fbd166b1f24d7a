"""What a machine can lack: each is one clear line with a remedy and the right exit code, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.commands import processes_of, run

PRLIMIT = shutil.which("prlimit")
MOUNT, UMOUNT = shutil.which("mount"), shutil.which("umount")


def without_java(tmp_path: Path) -> dict[str, str]:
    return {"PATH": str(tmp_path), "JAVA_HOME": ""}


def test_without_java(tmp_path: Path) -> None:
    done = run("up", "--home", str(tmp_path / "home"), env=without_java(tmp_path))
    assert done.code == 3
    assert "no Java 17 or newer found" in done.complaint
    assert "JAVA_HOME" in done.complaint
    assert not (tmp_path / "home").exists()


def test_with_an_old_java(tmp_path: Path) -> None:
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    (tmp_path / "jdk" / "bin" / "java").touch(mode=0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="11.0.22"\n')
    env = {**without_java(tmp_path), "JAVA_HOME": str(tmp_path / "jdk")}
    done = run("up", "--home", str(tmp_path / "home"), env=env)
    assert done.code == 3
    assert "is Java 11.0.22" in done.complaint


def test_java_check_ends_with_its_exit_code(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "fencepost.machine.java", "--check"]
    good = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (good.returncode, good.stdout.count("\n")) == (0, 1), good
    bad = subprocess.run(
        argv, capture_output=True, text=True, env={**os.environ, **without_java(tmp_path)}, check=False
    )
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (3, "", 1), bad


def test_a_file_in_place_of_the_home(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("hello")
    done = run("up", "--home", str(tmp_path / "home"))
    assert done.code == 2
    assert done.complaint == f"fencepost: {tmp_path / 'home'} is not a folder: choose another with --home DIR"
    assert (tmp_path / "home").read_text() == "hello"


@pytest.mark.parametrize("name", ["kafka", "postgres"])
def test_a_folder_with_things_of_others(tmp_path: Path, name: str) -> None:
    """What is wiped one day must have been made by us."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "precious").touch()
    (tmp_path / ".gitignore").write_text("mine")
    done = run("up", "--home", str(tmp_path))
    assert done.code == 2
    assert done.complaint.startswith(f"fencepost: {tmp_path} has a {name} that is not a stack's")
    assert run("down", "--wipe", "--home", str(tmp_path)).out == f"no stack in {tmp_path}\n"
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted([".gitignore", name, "precious"])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 MB. Only root can make one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or not MOUNT or not UMOUNT:
        pytest.skip("only root can mount")
    if subprocess.run([MOUNT, "-t", "tmpfs", "-o", "size=32m", "tmpfs", disk], check=False).returncode:
        pytest.skip("not allowed to mount here")
    yield disk
    run("down", "--wipe", "--home", str(disk / "home"))
    subprocess.run([UMOUNT, disk], check=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_home(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    home = tmp_path / "closed" / "home"
    done = run("up", "--home", str(home))
    assert done.code == 2
    assert done.complaint == f"fencepost: {home}: Permission denied: choose another folder with --home DIR"


def test_a_read_only_disk(small_disk: Path) -> None:
    assert MOUNT
    subprocess.run([MOUNT, "-o", "remount,ro", small_disk], check=True)
    done = run("up", "--home", str(small_disk / "home"))
    assert done.code == 2
    assert done.complaint == (
        f"fencepost: {small_disk / 'home'}: Read-only file system: choose another folder with --home DIR"
    )


def test_a_disk_without_room(small_disk: Path) -> None:
    done = run("up", "--home", str(small_disk / "home"))
    assert done.code == 3
    assert "32 MB left" in done.complaint or "31 MB left" in done.complaint
    assert "make room" in done.complaint
    assert list(small_disk.iterdir()) == []


@pytest.mark.skipif(PRLIMIT is None, reason="needs prlimit")
@pytest.mark.parametrize("limit", [0, 1_000_000])
def test_a_disk_that_fills_up_during_the_start(tmp_path: Path, limit: int) -> None:
    """Files that cannot grow: first our own, then those of the processes."""
    home = tmp_path / "home"
    done = run("up", "--home", str(home), under=(str(PRLIMIT), f"--fsize={limit}"))
    assert done.code == 3
    assert "File too large" in done.complaint
    assert str(home) in done.complaint
    assert processes_of(home) == []
    run("down", "--wipe", "--home", str(home))


def test_help_imports_nothing_heavy() -> None:
    look = "import sys; from fencepost.cli import app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.split()
    assert "fencepost.cli.stack" in loaded
    assert not {"pyspark", "confluent_kafka", "pyarrow", "psycopg"} & set(loaded)
