"""The archive of Kafka's classes may be damaged: it costs a slower start, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.local import Stack, cds
from fencepost.local.kafka import Runtime
from fencepost.machine import jars, java
from fencepost.machine.progress import Silent


class Heard(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """With an archive of its own, which is damaged in the middle."""
    found = Runtime(java.find(), jars.fetch("broker", progress=Silent()))
    whole = cds.with_archive(found, Silent())
    if whole.archive is None:
        pytest.skip("this Java makes no archive")
    copy = tmp_path / "archive.jsa"
    content = bytearray(whole.archive.read_bytes())
    half = len(content) // 2
    content[half : half + 2_000_000] = b"\xff" * 2_000_000
    copy.write_bytes(content)
    damaged = Runtime(whole.java, whole.jars, copy)
    monkeypatch.setattr(cds, "with_archive", lambda *_: damaged)
    return damaged


def test_damage_is_seen_and_removed(runtime: Runtime) -> None:
    heard = Heard()
    assert cds.without_damage(runtime, heard).archive is None
    assert runtime.archive is not None
    assert not runtime.archive.exists()
    assert "is damaged: removed" in heard.notes[0]


def test_a_whole_one_stays() -> None:
    found = cds.with_archive(Runtime(java.find(), jars.fetch("broker", progress=Silent())), Silent())
    assert cds.without_damage(found, Silent()) is found


@pytest.mark.proof
def test_up_goes_on_without_it(runtime: Runtime, tmp_path: Path) -> None:
    heard = Heard()
    stack = Stack(tmp_path / "home", progress=heard)
    try:
        assert stack.up().status().missing == []
        assert runtime.archive is not None
        assert not runtime.archive.exists()
        assert any("is damaged" in note for note in heard.notes)
    finally:
        stack.down(wipe=True)
