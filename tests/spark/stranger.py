"""Whoever can reach a driver's ports: asks its block manager for broadcasts, in Spark's protocol, without a login."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

import psutil

_FETCH, _FETCHED, _ASK, _ANSWER = 0, 1, 3, 4  # kinds of messages
_OPEN_BLOCKS = 0
_PATIENCE = 5.0


def listening(pids: Iterable[int]) -> set[int]:
    """The ports on which these processes wait: everybody can see them."""
    found = (one for pid in pids for one in psutil.Process(pid).net_connections("tcp"))
    return {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}


def broadcasts(port: int, most: int = 100) -> bytes:
    """The first piece of each of the first broadcasts, as far as the port gives them away."""
    found = b""
    for number in range(most):
        try:
            found += block(port, f"broadcast_{number}_piece0")
        except TimeoutError:  # another protocol is spoken here
            return found
        except OSError:
            continue
    return found


def block(port: int, name: str) -> bytes:
    """One block, or nothing."""
    with socket.create_connection(("127.0.0.1", port), _PATIENCE) as line:
        line.settimeout(_PATIENCE)
        body = bytes([_OPEN_BLOCKS]) + _text("app") + _text("driver") + struct.pack(">i", 1) + _text(name)
        line.sendall(_framed(bytes([_ASK]) + struct.pack(">qi", 7, len(body)) + body))
        answer = _read(line)
        if answer[:1] != bytes([_ANSWER]):
            return b""
        stream, _chunks = struct.unpack(">qi", answer[14:26])
        line.sendall(_framed(bytes([_FETCH]) + struct.pack(">qi", stream, 0)))
        found = _read(line)
        return found[13:] if found[:1] == bytes([_FETCHED]) else b""


def _text(text: str) -> bytes:
    return struct.pack(">i", len(text)) + text.encode()


def _framed(message: bytes) -> bytes:
    return struct.pack(">q", len(message) + 8) + message


def _read(line: socket.socket) -> bytes:
    (size,) = struct.unpack(">q", _exactly(line, 8))
    return _exactly(line, min(size - 8, 1 << 26))


def _exactly(line: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        more = line.recv(size - len(read))
        if not more:
            raise ConnectionError("closed")
        read += more
    return read
