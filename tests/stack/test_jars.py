"""Jars from a repository in a folder: the real Ivy, without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.errors import Unreachable
from fencepost.machine import ivy, jars
from fencepost.machine.jars import fetch
from support.gate_cases import in_the_gate

SETTINGS = """<ivysettings>
  <settings defaultResolver="folder"/>
  <resolvers><filesystem name="folder">
    <artifact pattern="{folder}/[organisation]--[artifact]-[revision].[ext]"/>
  </filesystem></resolvers>
</ivysettings>
"""


@pytest.fixture(scope="session")
def spark_jars() -> list[Path]:
    """As they are in the cache of whoever runs the tests: five files."""
    return fetch("spark")


@pytest.fixture
def repository(tmp_path: Path, spark_jars: list[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the real jars, and an empty cache."""
    folder = tmp_path / "repository"
    folder.mkdir()
    for jar in spark_jars:
        shutil.copy(jar, folder)
    (tmp_path / "ivysettings.xml").write_text(SETTINGS.format(folder=folder))
    monkeypatch.setenv(ivy.SETTINGS_VARIABLE, str(tmp_path / "ivysettings.xml"))
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path / "cache"))
    return folder


def test_jars_are_fetched_once_and_not_read_again(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fetch("spark")
    assert [jar.name for jar in found] == [pin.file for pin in ivy.pins() if pin.configuration == "spark"]
    shutil.rmtree(repository)
    monkeypatch.setattr(jars, "_digest", lambda jar: pytest.fail(f"{jar} was read"))
    assert fetch("spark") == found


@pytest.mark.parametrize("damage", in_the_gate(["cut", "changed", "gone"], "changed"))
def test_a_damaged_jar_is_fetched_again_and_no_other(repository: Path, damage: str) -> None:
    bad, *others = fetch("spark")
    whole = bad.read_bytes()
    times = [jar.stat().st_mtime_ns for jar in others]
    if damage == "cut":
        bad.write_bytes(whole[:1000])
    elif damage == "changed":
        bad.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    else:
        bad.unlink()
    fetch("spark")
    assert bad.read_bytes() == whole
    assert [jar.stat().st_mtime_ns for jar in others] == times


def test_a_jar_that_is_not_the_pinned_one_is_refused(repository: Path, tmp_path: Path) -> None:
    victim = next(repository.glob("org.postgresql--*"))
    victim.write_bytes(b"something else")
    with pytest.raises(Unreachable, match=f"{victim.name} does not have the checksum") as failure:
        fetch("spark")
    assert ivy.SETTINGS_VARIABLE in failure.value.remedy
    assert not (tmp_path / "cache" / "jars" / victim.name).exists()


def test_what_an_interrupted_fetch_left_is_no_obstacle(repository: Path, tmp_path: Path) -> None:
    left = tmp_path / "cache" / "fetching"
    (left / "ivy" / "org.postgresql" / "postgresql" / "jars").mkdir(parents=True)
    (left / "ivy" / "org.postgresql" / "postgresql" / "jars" / "postgresql-42.7.14.jar").write_bytes(b"half")
    (left / "jars").mkdir()
    (left / "jars" / "old.jar").write_bytes(b"old")
    assert all(jar.exists() for jar in fetch("spark"))
    assert not left.exists()


def fetching() -> subprocess.Popen[str]:
    look = "from fencepost.machine.jars import fetch; print(len(fetch('spark')))"
    return subprocess.Popen([sys.executable, "-c", look], stdout=subprocess.PIPE, text=True, env=dict(os.environ))


def test_two_processes_at_once(repository: Path) -> None:
    both = [fetching(), fetching()]
    assert [command.communicate(timeout=60)[0].strip() for command in both] == ["5", "5"]


def test_nothing_in_reach_and_an_empty_cache(repository: Path, tmp_path: Path) -> None:
    shutil.rmtree(repository)
    done = subprocess.run([sys.executable, "-m", "fencepost.machine.jars"], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    *_progress, complaint = done.stderr.splitlines()
    assert complaint.startswith("fencepost: the jars could not be fetched (see ")
    assert ivy.SETTINGS_VARIABLE in complaint
    assert (tmp_path / "cache" / "fetching" / "ivy.log").read_text()
    assert "Traceback" not in done.stderr


def test_settings_that_are_not_there(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ivy.SETTINGS_VARIABLE, str(repository / "missing.xml"))
    done = subprocess.run([sys.executable, "-m", "fencepost.machine.jars"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "missing.xml, which is not a file" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_whole_cache_that_cannot_be_written_to(repository: Path, tmp_path: Path) -> None:
    found = fetch("spark")
    (tmp_path / "cache" / "jars" / "verified.json").unlink()
    (tmp_path / "cache" / "jars").chmod(0o500)
    assert fetch("spark") == found
