"""Which home a command means."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.local import nearest_home, running, state


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("FENCEPOST_HOME", raising=False)
    (tmp_path / "project" / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "deep" / "down")
    return tmp_path / "project"


def test_without_any_it_is_that_of_this_folder(project: Path) -> None:
    assert nearest_home() == project / "deep" / "down" / ".fencepost"
    assert running() is None


def test_the_nearest_with_a_stack_is_meant(project: Path) -> None:
    for folder in (project, project / "deep"):
        home = folder / ".fencepost"
        home.mkdir()
        state.save(home, state.new(home))
        assert nearest_home() == home
    assert running() is None  # nothing of it is alive


def test_the_variable_comes_first(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_HOME", "/elsewhere")
    assert nearest_home() == Path("/elsewhere")
