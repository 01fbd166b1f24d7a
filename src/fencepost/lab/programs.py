"""Programs that are made to die: started as processes of their own, killed or held with everything they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import psutil

from fencepost.errors import Unreachable
from fencepost.machine import process

PATIENCE = 600.0  # a busy machine takes minutes from one kill to the next


class Program:
    """A Python module as a process, with its output in a file."""

    def __init__(self, module: str, arguments: list[str], log: Path, environment: Mapping[str, str]) -> None:
        if "TMPDIR" in environment:
            Path(environment["TMPDIR"]).mkdir(exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **environment},
            )
        self._log = log
        self._identity = process.identify(self._process.pid)

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def stop_tree(self) -> None:
        """SIGSTOP to all of it, in effect on return."""
        held = process.send_all(self._identity, signal.SIGSTOP) if self._identity else []
        process.until(lambda: all(process.stopped(one) or not process.alive(one) for one in held), PATIENCE)

    def go_on(self) -> None:
        """SIGCONT to all of it."""
        if self._identity:
            process.send_all(self._identity, signal.SIGCONT)

    def ended(self) -> int:
        """Wait until it has ended by itself, and say how."""
        self.wait_for(lambda: self.code is not None)
        return self._process.wait()

    def kill_tree(self) -> int:
        """SIGKILL to it, its JVM and every worker, found by parentage. Says how many processes that were."""
        try:
            parent = psutil.Process(self._process.pid)
            tree = [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            tree = []
        for one in tree:
            try:
                one.kill()  # psutil compares the start time, so that a reused pid is never hit
            except psutil.NoSuchProcess:
                continue
        self._process.wait()
        psutil.wait_procs(tree[1:], timeout=PATIENCE)
        return len(tree)

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """Until the condition holds; False when the program ended first."""
        deadline = monotonic() + PATIENCE
        while monotonic() < deadline:
            if condition():
                return True
            if self._process.poll() is not None:
                return False
            sleep(0.01)
        raise Unreachable(f"nothing happened for {PATIENCE:.0f} s", f"see {self._log}")

    def finish(self) -> None:
        """Wait for its end, which must be a good one."""
        self.wait_for(lambda: self._process.poll() is not None)
        if self._process.returncode != 0:
            last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
            raise Unreachable(f"a program ended with {self._process.returncode}: {''.join(last)}")


@contextmanager
def program(
    module: str, arguments: list[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Program]:
    """A program that does not outlive the block."""
    started = Program(module, arguments, log, environment or {})
    try:
        yield started
    finally:
        started.kill_tree()
