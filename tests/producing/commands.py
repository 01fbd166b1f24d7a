"""`fencepost produce`, run to its end, or as a process of its own that is killed on the way."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from typing import Any

from fencepost.machine import process
from support import commands

PATIENCE = 120.0


class Done(commands.Ended):
    @property
    def totals(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return found


def produce(servers: str, *arguments: object) -> Done:
    """In this process."""
    return _done(commands.here(*_words(servers, *arguments)))


def produce_apart(servers: str, *arguments: object, stdin: str = "") -> Done:
    """In a process of its own, with its own standard input."""
    return _done(commands.apart(*_words(servers, *arguments), stdin=stdin))


def command(servers: str, *arguments: object) -> list[str]:
    return commands.argv(*_words(servers, *arguments))


def _words(servers: str, *arguments: object) -> list[object]:
    return ["produce", "--bootstrap-server", servers, "--format", "json", *arguments]


def _done(ended: commands.Ended) -> Done:
    return Done(ended.code, ended.out, ended.err)


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
