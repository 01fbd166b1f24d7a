"""The gate: groups of suites, several at once, each with its own brokers and database. Alone, a suite mostly waits.

What a group says is shown when it ends, whole; the slowest tests of each come with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

TESTS = Path(__file__).parent
AT_ONCE = 3
GROUPS = (  # the longest first; what no group names is run with the last
    ("contract", "lab"),
    ("consuming", "cluster"),
    ("spark", "model"),
    ("audit", "producing", "stack", "sweep"),
    (),
)
PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-m",
    "not proof",
    "--durations=25",
    "--color=yes" if sys.stdout.isatty() else "--color=no",
]
_showing = Lock()


def main() -> int:
    """Ends with the worst code of all groups."""
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        codes = list(pool.map(_run, GROUPS))
    _say(f"the gate {'failed' if any(codes) else 'passed'} in {time.monotonic() - began:.0f} s\n")
    return max(codes)


def _run(group: tuple[str, ...]) -> int:
    name = ", ".join(group) or "the others"
    _say(f"begins: {name}\n")
    began = time.monotonic()
    paths = [f"tests/{suite}" for suite in group] or _others()
    done = subprocess.run(
        [*PYTEST, *paths], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, env=os.environ
    )
    _say(f"{done.stdout.decode(errors='replace')}ended: {name}, {time.monotonic() - began:.0f} s\n")
    return done.returncode


def _others() -> list[str]:
    named = {suite for group in GROUPS for suite in group}
    suites = [path for path in TESTS.iterdir() if path.is_dir() and any(path.glob("test_*.py"))]
    return ["tests", *(f"--ignore=tests/{path.name}" for path in suites if path.name in named)]


def _say(text: str) -> None:
    with _showing:
        sys.stdout.write(text)
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
