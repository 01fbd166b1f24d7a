"""What a process of ours does to stay small, once, before it opens anything. Not for a process of somebody else's."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from typing import Any

_ARENA_MAX = -8  # of glibc's mallopt
_ARENAS = 2  # else each of the many threads that librdkafka has gets one, which keeps what it was given


def keep_small() -> None:
    """Memory of all threads comes from a few arenas, Arrow's too; and pandas stays out, where nobody has it yet."""
    with suppress(AttributeError, OSError):  # not on every system
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)
    with suppress(ModuleNotFoundError):
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())
        _keep_pandas_out(pa)


def _keep_pandas_out(pa: Any) -> None:
    """pyarrow imports pandas, where it is installed, to see whether a list is one of its own: 50 MiB, half a second.

    It looks for it once, and again when somebody really asks for it.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """A finder of modules that says of one that it is not there."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)
