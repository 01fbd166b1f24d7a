"""Free ports on the loopback address."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection

HOST = "127.0.0.1"
# Below the range that the system hands out by itself: a remembered port is not lost to somebody's outgoing connection.
_RANGE = range(20_000, 32_000)


def free(port: int) -> bool:
    """Could a server listen there now?"""
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as Java and PostgreSQL do: TIME_WAIT is no hindrance
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def choose(wanted: int | None, taken: Collection[int]) -> int:
    """The wanted port if it can be had, else a free one; never one of `taken`."""
    if wanted is not None and wanted not in taken and free(wanted):
        return wanted
    candidates = (port for port in random.sample(_RANGE, len(_RANGE)) if port not in taken and free(port))
    return next(candidates)


def listening(port: int, timeout: float = 1) -> bool:
    """Does somebody accept connections there?"""
    try:
        socket.create_connection((HOST, port), timeout).close()
    except OSError:
        return False
    return True
