"""Who ends what the lab has started when the lab itself is killed with -9: a process that waits for that.

`python -m fencepost.lab.keeper FOLDER TOKEN`: the stack's home is FOLDER/home; other processes are known by TOKEN in
their environment. It waits for the end of its standard input; the word "done" on it means that nothing is left to do.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psutil

from fencepost.local import Stack
from fencepost.local.interrupts import held_back
from fencepost.machine import process

TOKEN = "FENCEPOST_LAB"  # noqa: S105 (the name of a variable; its value is no secret)
_DONE = "done\n"
_GRAVE = 10.0


@contextmanager
def keeping(folder: Path) -> Iterator[str]:
    """Until the end of the block somebody watches. The token is for the environment of whatever is started in it."""
    token = uuid4().hex
    argv = [sys.executable, "-m", "fencepost.lab.keeper", str(folder), token]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True) as keeper:
        try:
            yield token
        finally:
            with held_back():
                for left in started_here(token):
                    process.send(left, signal.SIGKILL)
                if not _stack(folder).exists:  # else it is the keeper's to remove
                    _say_done(keeper)


def _say_done(keeper: subprocess.Popen[bytes]) -> None:
    assert keeper.stdin is not None  # noqa: S101 (it was asked for)
    with suppress(BrokenPipeError):
        keeper.stdin.write(_DONE.encode())
        keeper.stdin.flush()


def _stack(folder: Path) -> Stack:
    return Stack(folder / "home")


def started_here(token: str) -> list[process.Identity]:
    """Every process of ours that has the token, whoever its parent is."""
    found = []
    for entry in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if entry.environ().get(TOKEN) == token and (identity := process.identify(entry.pid)):
                found.append(identity)
    return found


def main(folder: Path, token: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.stdin.read() == _DONE:
        return
    killed = [one for one in started_here(token) if process.send(one, signal.SIGKILL)]  # the stopped ones too
    process.until(lambda: not any(map(process.alive, killed)), _GRAVE)
    _stack(folder).down(wipe=True)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
