"""A server that says back what it hears, for what a real one does not let you see: which bytes arrived, and when."""

from __future__ import annotations

import socket
import struct
import threading
from types import TracebackType
from typing import Self

from fencepost.lab.proxy.kafka import REQUEST, SIZE_FIELD

CLIENT = b"orders"
VERSION = 8
RESET = b"reset me"
"""The server that hears this resets the connection."""


def frame(api: int, body: bytes = b"", version: int = VERSION) -> bytes:
    """A Kafka request, a Produce with acks=1, which is its own answer when it comes back.

    A response has its correlation id where a request has its api: here they are the same.
    """
    content = CLIENT + b"\xff\xff\x00\x01" + body
    size = REQUEST.size - SIZE_FIELD + len(content)
    return REQUEST.pack(size, api, version, api << 16 | version, len(CLIENT)) + content


def message(kind: bytes, body: bytes) -> bytes:
    """A message of PostgreSQL's."""
    return kind + struct.pack(">I", 4 + len(body)) + body


class Echo:
    """Listens on a free port. `heard` holds what came, over all connections."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.ended = 0  # connections that are over
        self.mute = False
        self.listening = threading.Event()  # cleared: it reads nothing
        self.listening.set()
        self._changed = threading.Condition()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = ("127.0.0.1", int(self._socket.getsockname()[1]))
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def await_heard(self, expected: bytes) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.heard == expected, 10), bytes(self.heard[:200])

    def await_ended(self, n: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.ended == n, 10), self.ended

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=[connection], daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        try:
            with connection:
                while self.listening.wait() and (data := connection.recv(1 << 16)):
                    self._note(data, 0)
                    if data.endswith(RESET):
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        return
                    if not self.mute:
                        connection.sendall(data)
        except OSError:
            pass  # a reset is an end as well
        finally:
            self._note(b"", 1)

    def _note(self, data: bytes, ended: int) -> None:
        with self._changed:
            self.heard += data
            self.ended += ended
            self._changed.notify_all()
