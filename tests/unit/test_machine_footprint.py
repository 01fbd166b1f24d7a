"""A process of ours stays small: in a process of its own, because it is done once."""

from __future__ import annotations

import subprocess
import sys

LIST = "pa.array([1])"
TABLE = "pa.table({'a': [1]}).to_pandas()"
PROGRAM = """
import sys
from fencepost.machine.footprint import keep_small
keep_small()
import pyarrow as pa
{}
print("pandas" in sys.modules, pa.default_memory_pool().backend_name)
"""


def told(use: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(use)], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_lists_become_arrays_without_pandas() -> None:
    assert told(LIST) == ["False", "system"]


def test_who_asks_for_pandas_has_it() -> None:
    assert told(TABLE) == ["True", "system"]
