"""`fencepost` with the words that a person types, and how it ended: in this very process, or in one of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest

from fencepost.cli import main

PATIENCE = 180.0  # Spark starts in half a minute beside others


@dataclass(frozen=True)
class Ended:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line that a failed command leaves."""
        assert self.out == ""
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("fencepost: ")
        return self.err.strip()


Command = Callable[..., Ended]


def here(*words: object) -> Ended:
    """In this process, which has everything loaded. What a driver writes past Python's streams is not seen, and there
    is no standard input: for these, and for signals, there is `apart`.
    """
    out, err = io.StringIO(), io.StringIO()
    with _own_signals(), redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return Ended(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def apart(*words: object, env: Mapping[str, str] | None = None, stdin: str = "") -> Ended:
    """In a process of its own."""
    ended = subprocess.run(
        argv(*words),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        input=stdin,
        env={**os.environ, **(env or {})},
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def argv(*words: object) -> list[str]:
    return [sys.executable, "-m", "fencepost", *map(str, words)]


@contextmanager
def _own_signals() -> Iterator[None]:
    """A command may put handlers in place, for as long as its process lives."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
