"""Names of topics, groups, tables, roles and ids as anybody may type them, in every command that takes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.local import Stack
from hostile.commands import Command
from hostile.conftest import Declare
from support.hostile import NAMES, SURROGATE

TYPED = {name: text for name, text in {**NAMES, "surrogate": SURROGATE}.items() if "\x00" not in text}
QUICK = ["empty", "escape", "SQL", "surrogate"]
EACH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.proof) for name in TYPED]


@pytest.mark.parametrize("name", EACH)
def test_kafkas_names(stack: Stack, fencepost: Command, name: str) -> None:
    text, where = TYPED[name], f"--bootstrap-server={stack.bootstrap_servers}"
    for words in (
        ["topic", "describe", where, "--", text],
        ["topic", "create", "--if-not-exists", where, "--", text],
        ["topic", "delete", "--yes", where, "--", text],
        ["group", "describe", where, "--", text],
        ["produce", f"--topic={text}", "--count=1", where],
        ["consume", f"--topic={text}", "--group=g", "--once", where],
        ["audit", f"--topic={text}", "--sink=topic:nothing", where],
        ["audit", "--topic=nothing", f"--sink=topic:{text}", where],
    ):
        fencepost(*words).require_clean()


@pytest.mark.parametrize("name", EACH)
def test_a_group_of_any_name_consumes_or_is_refused(stack: Stack, topic: str, fencepost: Command, name: str) -> None:
    where = f"--bootstrap-server={stack.bootstrap_servers}"
    assert fencepost("produce", "--topic", topic, "--count=3", where).require_clean(0)
    text = TYPED[name]
    done = fencepost("consume", f"--topic={topic}", f"--group={text}", "--once", where).require_clean()
    if done.code == 0:
        assert len(done.lines()) == 3
        shown = fencepost("group", "describe", where, "--format=json", "--", text).require_clean(0)
        assert [part["lag"] for part in shown.lines()[0]["partitions"]] == [0]
    fencepost("group", "list", where).require_clean(0)


@pytest.mark.parametrize("name", EACH)
def test_names_of_postgresqls(declare: Declare, fencepost: Command, name: str) -> None:
    """A table of that name is made and looked at, or refused with a line."""
    text = TYPED[name]
    spec = declare(text)
    prepared = fencepost("init", "--db", "--spec", spec).require_clean(0, 1, 2)
    for words in (["plan"], ["status"], ["peek"], ["positions", "show"], ["audit"], ["receipt", f"--id={text}"]):
        done = fencepost(*words, "--spec", spec).require_clean()
        assert done.code in (0, 1, 2, 5), done
    if prepared.code == 0:
        assert fencepost("run", "--once", "--spec", spec).require_clean(0)
    fencepost("init", "--db", "--spec", declare("t"), f"--role={text}").require_clean(0, 1, 2)


@pytest.mark.parametrize("name", EACH)
def test_names_of_columns_and_pipelines(declare: Declare, topic: str, fencepost: Command, name: str) -> None:
    text = TYPED[name]
    for spec in (
        declare(topic, name=text),
        declare(topic, source={"topic": topic, "value": "json", "schema": f"`{text}` long"}),
        declare(topic, source={"topic": topic, "value": "json", "schema": f"{text} long"}),
    ):
        for words in (["spec"], ["plan"], ["run", "--once"], ["peek"]):
            fencepost(*words, "--spec", spec).require_clean()


def test_files_of_settings(stack: Stack, tmp_path: Path, fencepost: Command) -> None:
    for name, content in {"binary": b"\x00\xff\x1b", "escape": b"client.id=\x1b[31m", "empty": b""}.items():
        (tmp_path / name).write_bytes(content)
        where = f"--bootstrap-server={stack.bootstrap_servers}"
        fencepost("group", "list", f"--command-config={tmp_path / name}", where).require_clean(0, 2)
