"""The gate: groups of suites, several at once, each with its own brokers and database. Alone, a suite mostly waits.

`--proof` runs everything, the long proofs too, in the same way. What a group says is shown when it ends, whole.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

TESTS = Path(__file__).parent
AT_ONCE = 3  # with two cores they are busy, and a suite that waits holds nobody up
GROUPS = (  # the longest first; what no group names is run with the last
    ("spark",),
    ("spark/test_*topic*.py", "spark/test_delta*.py", "spark/test_iceberg*.py"),
    ("consuming",),
    ("producing", "audit"),
    ("contract", "lab"),
    ("cluster", "stack"),
    ("model", "sweep", "remedies"),
    (),
)
PROOFS = (("model",), *(tuple(suite for suite in group if suite != "model") for group in GROUPS))
PYTEST = [sys.executable, "-m", "pytest", "--durations=15"]
_showing = Lock()


@dataclass(frozen=True)
class Ended:
    """A group that has run."""

    name: str
    code: int
    seconds: float
    processor: float  # seconds that it and all that it started have used

    def __str__(self) -> str:
        said = f"{self.seconds:.0f} s, {self.processor:.0f} s of processor time"
        return f"{self.name}: {said}{f', ended with {self.code}' if self.code else ''}"


def main(words: Sequence[str]) -> int:
    """Ends with the worst code of all groups."""
    proof = "--proof" in words
    groups = PROOFS if proof else GROUPS
    chosen = [*PYTEST, *([] if proof else ["-m", "not proof"]), f"--color={'yes' if sys.stdout.isatty() else 'no'}"]
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ended = list(pool.map(lambda group: _run(group, groups, chosen), groups))
    worst = max(group.code for group in ended)
    whole = Ended(
        f"{'the proofs' if proof else 'the gate'} {'failed' if worst else 'passed'}",
        0,
        time.monotonic() - began,
        sum(group.processor for group in ended),
    )
    _say("".join(f"{one}\n" for one in (*ended, whole)))
    return worst


def _run(group: Sequence[str], groups: Sequence[Sequence[str]], pytest: Sequence[str]) -> Ended:
    name = ", ".join(group) or "the others"
    _say(f"begins: {name}\n")
    began = time.monotonic()
    paths = [path for suite in group for path in _paths(suite, groups)] or _others(groups)
    few = {"FENCEPOST_GATE": "1"} if groups is GROUPS else {}  # examples of properties
    env = {**os.environ, **few}
    with subprocess.Popen([*pytest, *paths], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env) as running:
        assert running.stdout is not None
        said = running.stdout.read().decode(errors="replace")
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    ended = Ended(name, abs(running.returncode), time.monotonic() - began, used.ru_utime + used.ru_stime)
    _say(f"{said}ended: {ended}\n")
    return ended


def _paths(suite: str, groups: Sequence[Sequence[str]]) -> list[str]:
    """A suite without what other groups have of it, or the files that a pattern stands for."""
    if "*" in suite:
        return [f"tests/{path.relative_to(TESTS)}" for path in sorted(TESTS.glob(suite))]
    elsewhere = {named for group in groups for named in group if named.startswith(f"{suite}/")}
    return [f"tests/{suite}", *(f"--ignore-glob={TESTS / named}" for named in sorted(elsewhere))]


def _others(groups: Sequence[Sequence[str]]) -> list[str]:
    named = {suite for group in groups for suite in group}
    suites = [path for path in TESTS.iterdir() if path.is_dir() and any(path.glob("test_*.py"))]
    return ["tests", *(f"--ignore=tests/{path.name}" for path in suites if path.name in named)]


def _say(text: str) -> None:
    with _showing:
        sys.stdout.write(text)
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
