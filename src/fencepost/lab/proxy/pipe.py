"""Sockets as the proxy uses them: one end of a connection, and one direction between two ends."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any

CHUNK = 1 << 18
_NO_LINGER = struct.pack("ii", 1, 0)


class EndOfStream(Exception):
    """The peer sends no more."""


class Peer:
    """One end of a connection: the client, or the server upstream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def reset(self) -> None:
        """Close at once, so that the peer sees a reset and not an end. Harmless when closed already."""
        own: socket.socket = self.writer.get_extra_info("socket")
        if own.fileno() >= 0:
            with suppress(OSError):  # the peer was first
                own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.writer.transport.abort()

    async def finish(self) -> None:
        """Close after everything written has been sent."""
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


class Pipe:
    """One direction, read by frames. Frames that are let through are passed on together, without a copy each.

    The buffer holds first what may go and was not sent yet, up to `_judged`, then what nobody looked at.
    """

    def __init__(self, source: Peer, sink: Peer, gate: asyncio.Event) -> None:
        self.was_reset = False  # the source ended with an error
        self._source = source.reader
        self._sink: asyncio.StreamWriter | None = sink.writer
        self._gate = gate  # closed while the listener is blocked in this direction
        self._buffer = bytearray()
        self._judged = 0

    async def need(self, size: int) -> None:
        """Have at least so many bytes to look at. Sends what may go before it waits for more."""
        while len(self._buffer) - self._judged < size:
            await self.flush()
            try:
                chunk = await self._source.read(CHUNK)
            except OSError:
                self.was_reset = True
                chunk = b""
            if not chunk:
                raise EndOfStream
            self._buffer += chunk

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack_from(self._buffer, self._judged)

    async def look(self, size: int) -> bytes:
        """The next bytes, which stay where they are."""
        await self.need(size)
        return bytes(self._buffer[self._judged : self._judged + size])

    async def forward(self, size: int) -> None:
        """Let the next bytes through; a frame larger than the buffer goes in pieces, as it comes."""
        while size > (here := len(self._buffer) - self._judged):
            self._judged += here
            size -= here
            await self.need(1)
        self._judged += size

    async def take(self, size: int) -> bytes:
        """Take the next bytes out; what came before them has been sent on return."""
        await self.need(size)
        await self.flush()
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    async def flush(self) -> None:
        if self._judged:
            ready = bytes(self._buffer[: self._judged])
            del self._buffer[: self._judged]
            self._judged = 0
            await self.send(ready)

    async def send(self, data: bytes) -> None:
        """Pass this on now. A sink that is gone is not an error here: reading from it will tell."""
        await self._gate.wait()
        if self._sink is None:
            return
        try:
            self._sink.write(data)
            await self._sink.drain()
        except OSError:
            self.abandon()

    def abandon(self) -> None:
        """Throw away from now on what would be sent."""
        self._sink = None

    async def rest(self) -> None:
        """The source has ended: pass on what is left, be it a part of a frame."""
        self._judged = len(self._buffer)
        await self.flush()
        await self._gate.wait()

    async def end(self) -> None:
        """Pass on what is left, and then the end itself."""
        await self.rest()
        if self._sink is not None and self._sink.can_write_eof():
            with suppress(OSError):
                self._sink.write_eof()
