"""Ctrl-C while the command is still being loaded: it ends as one that was interrupted, and shows no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import islice

import pytest

from support.signals import attended

LOADING = "import time:"  # how the interpreter begins the line of each module that it has loaded
START = [sys.executable, "-X", "importtime", "-m", "fencepost", "--help"]


def _interrupted(module: int) -> tuple[int, list[str]]:
    """Interrupt the command when so many of its own modules are loaded: its exit code, and what it said."""
    started = subprocess.Popen(attended(START), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with started:
        assert started.stderr is not None
        ours = (line for line in started.stderr if " fencepost." in line)
        assert len(list(islice(ours, module))) == module, "it ended before"
        os.kill(started.pid, signal.SIGINT)
        said, complained = started.communicate(timeout=60)
    return started.returncode, [line for line in (said + complained).splitlines() if not line.startswith(LOADING)]


@pytest.mark.parametrize("module", range(1, 31, 4))
def test_an_interrupt_while_modules_are_loaded_ends_it_without_a_word(module: int) -> None:
    assert _interrupted(module) == (130, [])


IGNORED = """
import atexit, runpy, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
atexit.register(lambda: print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN))
sys.argv[1:] = ["--version"]
runpy.run_module("fencepost", run_name="__main__")
"""


def test_a_background_job_goes_on_ignoring_it() -> None:
    done = subprocess.run([sys.executable, "-c", IGNORED], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "True"
