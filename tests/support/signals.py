"""Programs that are to be signalled: started as from a terminal, whatever this run of the tests was started from."""

from __future__ import annotations

import sys
from collections.abc import Sequence

# A background job of a script ignores SIGINT, nohup's SIGHUP, and children inherit that: undone in the child itself.
_ATTENDED = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def attended(argv: Sequence[str]) -> list[str]:
    """The same program, under the same pid, with the signals' usual effects."""
    return [sys.executable, "-ISc", _ATTENDED, *argv]
