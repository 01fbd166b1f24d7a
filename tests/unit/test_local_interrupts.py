"""Interrupts are real signals to a real process."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from support.signals import attended

HELD = """
import os, signal
from fencepost.local.interrupts import held_back
try:
    with held_back():
        os.kill(os.getpid(), signal.{name})
        print("whole", flush=True)
    print("never", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
LEAVING = """
import os, signal
from fencepost.local.interrupts import terminating
with terminating():
    try:
        os.kill(os.getpid(), signal.{name})
        signal.pause()
    finally:
        print("cleaned up", flush=True)
"""
AGAIN = """
import os, signal
from fencepost.local.interrupts import terminating
with terminating():
    try:
        os.kill(os.getpid(), signal.{name})
        signal.pause()
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        print("cleaned up", flush=True)
"""


def run(code: str, name: str) -> tuple[int, list[str]]:
    argv = attended([sys.executable, "-c", code.format(name=name)])
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout.split("\n")[:-1]


def test_ctrl_c_waits_for_the_end_of_the_block() -> None:
    assert run(HELD, "SIGINT") == (0, ["whole", "interrupted"])


def test_a_termination_waits_for_the_end_of_the_block() -> None:
    assert run(HELD, "SIGTERM") == (-signal.SIGTERM, ["whole"])


def test_also_where_this_very_run_ignores_them() -> None:
    """As under nohup, or in a background job of a script."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        assert run(HELD, "SIGINT") == (0, ["whole", "interrupted"])
        assert run(LEAVING, "SIGHUP") == (129, ["cleaned up"])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_termination_unwinds(name: str, code: int) -> None:
    assert run(LEAVING, name) == (code, ["cleaned up"])


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_one_that_is_repeated_does_not_tear_the_unwinding_apart(name: str, code: int) -> None:
    assert run(AGAIN, name) == (code, ["cleaned up"])
