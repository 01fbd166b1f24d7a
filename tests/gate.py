"""The gate: lint, and groups of suites, several at once. Alone, a suite mostly waits.

The groups share one stack, but for those that break theirs: a stack costs processor time for as long as it is up.
`--proof` runs everything, the long proofs too, each group with a stack of its own. What a group says is shown when it
ends, whole.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from fencepost.local import Stack
from support.shared_stack import HOME

TESTS = Path(__file__).parent
AT_ONCE = 5  # with two cores they are busy, and a suite that waits holds nobody up
BREAKING = ("cluster", "sweep")  # they kill and stop what is shared elsewhere
PAGE = ("web",)  # it shows the whole cluster, and loses a broker
OF_THEIR_OWN = (BREAKING, PAGE)  # have a stack for themselves
BEHIND_PROXIES = (  # one stack behind proxies serves them all
    "lab_runs",
    "consuming/test_every_style_killed.py",
    "consuming/test_late_commits.py",
    "consuming/test_members.py",
    "contract/test_kafka_doubt.py",
    "contract/test_kafka_single_use.py",
    "lab/test_proxy_kafka.py",
    "producing/test_doubt.py",
    "producing/test_stories.py",
)
LAKES = (  # those that need Delta's jars first: the others do with the same JVM, but for Iceberg's
    "remedies/test_lake.py",
    "spark/test_delta*.py",
    "spark/test_state_lakes.py",
    "spark/test_lake*.py",
    "spark/test_iceberg*.py",
    "spark/test_parquet*.py",
    "spark/test_*topic*.py",
)
GROUPS = (  # the longest first, and short ones last; what no group names is run with the empty one
    ("spark",),
    BEHIND_PROXIES,
    LAKES,
    ("model",),
    ("consuming",),
    ("contract", "lab"),
    ("producing", "audit"),
    (),
    BREAKING,
    PAGE,
    ("remedies",),
    ("stack",),
)
PYTEST = [sys.executable, "-m", "pytest", "--durations=25"]
DEATH = re.compile(r"^.*\bwas terminated by signal \d+.*(?:\n.*\bDETAIL: .*(?:\n\t.*)*)?", re.MULTILINE)
LINT = ["make", "--no-print-directory", "lint"]
_showing = Lock()
_running: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class Ended:
    """A group that has run."""

    name: str
    code: int
    seconds: float
    processor: float  # seconds that it and what it waited for have used: not its brokers, nor every Spark

    def __str__(self) -> str:
        said = f"{self.seconds:.0f} s, {self.processor:.0f} s of processor time"
        return f"{self.name}: {said}{f', ended with {self.code}' if self.code else ''}"


def main(options: Sequence[str]) -> int:
    """Ends with the worst code of all groups."""
    proof = "--proof" in options
    chosen = [*PYTEST, *([] if proof else ["-m", "not proof"]), f"--color={'yes' if sys.stdout.isatty() else 'no'}"]
    began = time.monotonic()
    with nullcontext() if proof else Stack.temporary() as stack, ThreadPoolExecutor(AT_ONCE) as pool, _ending(pool):
        lint = pool.submit(_run, "lint", LINT, {})
        suites = [
            pool.submit(_run, ", ".join(group) or "the others", [*chosen, *words(group)], _told(group, stack))
            for group in GROUPS
        ]
        ended = [running.result() for running in (lint, *suites)]
        fallen = deaths((stack.home / "postgres.log").read_text(errors="replace")) if stack else ""
    worst = max(group.code for group in ended)
    whole = Ended(
        f"{'the proofs' if proof else 'the gate'} {'failed' if worst else 'passed'}",
        0,
        time.monotonic() - began,
        sum(group.processor for group in ended),
    )
    _say(fallen + "".join(f"{one}\n" for one in (*ended, whole)))
    return worst


def deaths(log: str) -> str:
    """Of processes of the shared PostgreSQL: one that dies takes all connections with it. Which it was, what it did."""
    return "".join(f"PostgreSQL: {found[0].strip()}\n" for found in DEATH.finditer(log))


@contextmanager
def _ending(pool: ThreadPoolExecutor) -> Iterator[None]:
    """Who interrupts the gate interrupts what it runs."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for running in _running:
            running.terminate()
        raise


def _told(group: Sequence[str], stack: Stack | None) -> Mapping[str, str]:
    """What a group's environment says: of properties the gate has few examples, and its stack is shared."""
    if stack is None:
        return {}
    return {"FENCEPOST_GATE": "1", **({} if group in OF_THEIR_OWN else {HOME: str(stack.home)})}


def _run(name: str, command: Sequence[str], told: Mapping[str, str]) -> Ended:
    _say(f"begins: {name}\n")
    began = time.monotonic()
    env = {**os.environ, **told}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes would compile the same modules
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env) as running:
        _running.append(running)
        assert running.stdout is not None
        said = running.stdout.read().decode(errors="replace")
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)  # so that nobody signals who has its pid next
    ended = Ended(name, abs(running.returncode), time.monotonic() - began, used.ru_utime + used.ru_stime)
    _say(f"{said}ended: {ended}\n")
    return ended


def words(group: Sequence[str]) -> list[str]:
    """What pytest is told to run for a group."""
    return [word for suite in group for word in _paths(suite)] or _others()


def _paths(suite: str) -> list[str]:
    """A suite without what other groups have of it, or the files that a pattern stands for."""
    if suite.endswith(".py"):
        return [f"tests/{path.relative_to(TESTS)}" for path in sorted(TESTS.glob(suite))]
    elsewhere = {named for group in GROUPS for named in group if named.startswith(f"{suite}/")}
    return [f"tests/{suite}", *(f"--ignore-glob={TESTS / named}" for named in sorted(elsewhere))]


def _others() -> list[str]:
    named = {suite for group in GROUPS for suite in group}
    suites = [path for path in TESTS.iterdir() if path.is_dir() and any(path.glob("test_*.py"))]
    return ["tests", *(f"--ignore=tests/{path.name}" for path in suites if path.name in named)]


def _say(text: str) -> None:
    with _showing:
        sys.stdout.write(text)
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
