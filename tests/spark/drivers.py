"""Programs that drive Spark in a process of their own, to be killed, stopped and gone on with, tree and all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from pyspark import SparkContext

from fencepost.machine import process
from support.signals import attended

TESTS = Path(__file__).parents[1]
PATIENCE = 180.0  # a session starts in five seconds alone and in thirty beside others


def wait_for(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    assert process.until(lambda: bool(condition()), seconds, 0.1), f"in {seconds:.0f} s this did not happen: {what}"


def never(condition: Callable[[], object], what: str, seconds: float = 10.0) -> None:
    assert not process.until(lambda: bool(condition()), seconds, 0.25), f"this must not happen: {what}"


def go_on(pid: int) -> None:
    """SIGCONT to a process that stopped itself, if nobody killed it meanwhile."""
    identity = process.identify(pid)
    if identity is not None:
        process.send(identity, signal.SIGCONT)


def spark_here() -> process.Identity:
    """The Spark of a run in this very process."""
    gateway = SparkContext._gateway
    assert gateway is not None
    identity = process.identify(gateway.proc.pid)
    assert identity is not None
    return identity


def running_tasks() -> int:
    """How many tasks of the Spark of a run in this very process have not ended, also of a job that was cancelled."""
    context = SparkContext._active_spark_context
    assert context is not None
    executors = context._jsc.sc().statusTracker().getExecutorInfos()
    return sum(executor.numRunningTasks() for executor in executors)


@contextmanager
def spark_held() -> Iterator[None]:
    """The Spark of a run in this very process stands still inside the block."""
    identity = spark_here()
    held = process.send_all(identity, signal.SIGSTOP)
    try:
        wait_for(lambda: all(map(process.stopped, held)), "every process of Spark stands still")
        yield
    finally:
        process.send_all(identity, signal.SIGCONT)


class Driver:
    """One such program. What it says is read from a file, so that it never waits for its reader."""

    def __init__(self, argv: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        self._out = folder / f"driver-{len(list(folder.glob('driver-*.out')))}.out"
        self._err = self._out.with_suffix(".err")
        self.scratch = self._out.with_suffix(".tmp")  # where its checkpoints are
        self.scratch.mkdir()
        path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        full = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(self.scratch), "PYTHONFAULTHANDLER": "1", **(env or {})}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._child = subprocess.Popen(
                attended(argv), cwd=folder, env=full, stdout=out, stderr=err, stdin=subprocess.DEVNULL
            )
        identity = process.identify(self._child.pid)
        assert identity is not None, self.told()
        self._identity = identity

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def news(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._out.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if line["event"] == event]

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something that it does; a driver that ends before that is told with its last words."""
        wait_for(lambda: condition() or not self.running, f"{what}\n{self.told()}")
        assert condition(), f"the driver ended with {self._child.poll()} before: {what}\n{self.told()}"

    def ended(self) -> int:
        """Its exit code, once it has ended by itself."""
        wait_for(lambda: not self.running, "the driver ends")
        return self._child.wait()

    def signal(self, number: signal.Signals) -> None:
        """To the driver alone, as a terminal or a supervisor would."""
        process.send(self._identity, number)

    def kill(self) -> None:
        """SIGKILL to all of it: the worker daemon has a process group of its own."""
        killed = process.send_all(self._identity, signal.SIGKILL)
        self._child.wait()
        wait_for(lambda: not any(map(process.alive, killed)), "every process of the driver is gone")

    def kill_spark(self) -> None:
        """SIGKILL to Spark's JVM alone, whose children are left to themselves."""
        (java,) = self.spark()
        process.send(java, signal.SIGKILL)

    def spark(self) -> list[process.Identity]:
        """Its JVM, as soon as there is one."""
        return [one for one in self.family() if psutil.Process(one.pid).name() == "java"]

    def family(self) -> list[process.Identity]:
        """The driver and every process below it."""
        return process.family(self._identity)

    def left_behind(self) -> bool:
        """Is there a process, of whatever parent, whose command line names the driver's scratch folder?"""
        found = psutil.process_iter(["cmdline"])
        return any(str(self.scratch) in word for one in found for word in one.info["cmdline"] or [])

    def stop(self) -> None:
        """SIGSTOP to all of it, in effect on return."""
        held = process.send_all(self._identity, signal.SIGSTOP)
        wait_for(lambda: all(map(process.stopped, held)), "every process of the driver stands still")

    def go_on(self) -> None:
        process.send_all(self._identity, signal.SIGCONT)

    def threads(self) -> str:
        """Where each of its threads stands, which ends it."""
        process.send(self._identity, signal.SIGCONT)
        process.send(self._identity, signal.SIGABRT)
        process.until(lambda: not self.running, 10.0)
        return self.told()

    def told(self) -> str:
        return f"out: {self._out.read_text()[-2000:]}\nerr: {self._err.read_text()[-4000:]}"


@contextmanager
def pipeline_process(spec: Path, *words: str, env: Mapping[str, str] | None = None) -> Iterator[Driver]:
    with _driver("pipeline_process.py", [str(spec), *words], spec.parent, env) as driver:
        yield driver


@contextmanager
def run_command(spec: Path, *words: str) -> Iterator[Driver]:
    """`fencepost run`, as a user starts it."""
    with _driving([sys.executable, "-m", "fencepost", "run", "--spec", str(spec), *words], spec.parent) as driver:
        yield driver


@contextmanager
def naive_process(folder: Path, settings: dict[str, Any]) -> Iterator[Driver]:
    with _driver("naive_process.py", [json.dumps(settings)], folder) as driver:
        yield driver


@contextmanager
def stateful_native_process(folder: Path, settings: dict[str, Any]) -> Iterator[Driver]:
    with _driver("stateful_native_process.py", [json.dumps(settings)], folder) as driver:
        yield driver


@contextmanager
def own_process(folder: Path, settings: dict[str, Any]) -> Iterator[Driver]:
    with _driver("own_process.py", [json.dumps(settings)], folder) as driver:
        yield driver


@contextmanager
def topic_control_process(folder: Path, settings: dict[str, Any]) -> Iterator[Driver]:
    with _driver("topic_control_process.py", [json.dumps(settings)], folder) as driver:
        yield driver


@contextmanager
def native_process(folder: Path, settings: dict[str, Any]) -> Iterator[Driver]:
    with _driver("native_process.py", [json.dumps(settings)], folder) as driver:
        yield driver


@contextmanager
def _driver(program: str, words: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> Iterator[Driver]:
    with _driving([sys.executable, str(TESTS / "spark" / program), *words], folder, env) as driver:
        yield driver


@contextmanager
def _driving(argv: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> Iterator[Driver]:
    driver = Driver(argv, folder, env)
    try:
        yield driver
    except AssertionError as failure:
        if driver.running:
            failure.add_note(driver.threads())
        raise
    finally:
        if driver.running:
            driver.kill()
