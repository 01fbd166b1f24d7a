"""The gate and the proofs run every test file, and each of them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import gate

ROOT = gate.TESTS.parent


def _collected(words: Sequence[str]) -> set[Path]:
    """The files that pytest takes of these words."""
    roots = [ROOT / word for word in words if not word.startswith("--")]
    found = {file for root in roots for file in ([root] if root.is_file() else root.rglob("test_*.py"))}
    for word in words:
        option, _, value = word.partition("=")
        if option == "--ignore-glob":
            found -= {file for file in found if file.match(value)}
        elif option == "--ignore":
            found -= {file for file in found if file.is_relative_to(ROOT / value)}
    return found


def test_every_file_is_in_one_group() -> None:
    times = Counter(file for group in gate.GROUPS for file in _collected(gate.words(group)))
    assert {file.relative_to(ROOT): count for file, count in times.items() if count > 1} == {}
    assert set(gate.TESTS.rglob("test_*.py")) - times.keys() == set()


def test_every_pattern_stands_for_a_file() -> None:
    patterns = [suite for group in gate.GROUPS for suite in group if suite.endswith(".py")]
    assert [pattern for pattern in patterns if not list(gate.TESTS.glob(pattern))] == []


def test_a_database_process_that_died_is_told_with_what_it_did() -> None:
    log = """\
2026-01-01 10:00:00.000 UTC [11] LOG:  checkpoint starting: time
2026-01-01 10:00:01.000 UTC [11] LOG:  client backend (PID 42) was terminated by signal 11: Segmentation fault
2026-01-01 10:00:01.000 UTC [11] DETAIL:  Failed process was running: MERGE INTO t
\tUSING s ON true
2026-01-01 10:00:01.000 UTC [11] LOG:  terminating any other active server processes
"""
    assert gate.deaths(log) == "PostgreSQL: " + "\n".join(log.splitlines()[1:4]) + "\n"
    assert gate.deaths(log.splitlines()[0]) == ""
