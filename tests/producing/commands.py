"""`fencepost produce` as a process of its own, run to its end or killed on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.machine import process

PATIENCE = 120.0


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def totals(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return found


def command(servers: str, *arguments: object) -> list[str]:
    given = [str(argument) for argument in arguments]
    return [sys.executable, "-m", "fencepost", "produce", "--bootstrap-server", servers, "--format", "json", *given]


def produce(servers: str, *arguments: object, stdin: str = "") -> Done:
    done = subprocess.run(
        command(servers, *arguments), input=stdin, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


def produce_until(condition: Callable[[], bool], servers: str, *arguments: object) -> bool:
    """Start it, and kill it with -9 when the condition holds. False: it ended by itself first."""
    with subprocess.Popen(
        command(servers, *arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        identity = process.identify(running.pid)
        assert identity is not None
        process.until(lambda: condition() or running.poll() is not None, PATIENCE, 0.001)
        if running.poll() is None:
            process.send(identity, signal.SIGKILL)
        out, err = running.communicate(timeout=PATIENCE)
    assert running.returncode in (0, -signal.SIGKILL), (out, err)
    return running.returncode == -signal.SIGKILL
