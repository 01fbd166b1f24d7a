"""Pipeline files that are wrong by mistake or on purpose: one message with a line, no traceback, no secret, no hang."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fencepost.errors import Usage
from fencepost.spec import load, parse
from support.hostile_yaml import GOOD, REFUSED, REFUSED_FILES, SECRET, TAKEN


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    monkeypatch.setenv("NESTED", "${SECRET}")
    monkeypatch.delenv("NOT_THERE", raising=False)


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_document_is_refused_with_its_line(name: str) -> None:
    text, words = REFUSED[name]
    with pytest.raises(Usage) as refused:
        parse(text)
    shown = str(refused.value)
    assert words in shown
    assert SECRET not in shown
    assert len(shown) < 3_000
    assert all(line.isprintable() for line in shown.splitlines())


@pytest.mark.parametrize("name", REFUSED_FILES)
def test_a_wrong_file_is_refused(name: str, tmp_path: Path) -> None:
    content, words = REFUSED_FILES[name]
    (tmp_path / "fencepost.yml").write_bytes(content)
    with pytest.raises(Usage) as refused:
        load(tmp_path / "fencepost.yml")
    assert words in str(refused.value)


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_written_is_what_is_meant(name: str, tmp_path: Path) -> None:
    text, kafka = TAKEN[name]
    (tmp_path / "fencepost.yml").write_bytes(text.encode())
    assert load(tmp_path / "fencepost.yml").kafka == kafka


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(Usage, match="is not a file"):
            load(path)
    with pytest.raises(Usage, match="No such file"):
        load(tmp_path / "nothing.yml")


def test_a_variable_that_is_no_text_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "ODD", os.fsdecode(b"\xff" + SECRET.encode()))
    with pytest.raises(Usage) as refused:
        parse(GOOD + 'kafka: {client.id: "${ODD}"}')
    assert "line 5: kafka.client.id" in str(refused.value)
    assert SECRET not in str(refused.value)
