"""Server-sent events: the part of a page that changes, again when it did. What is asked of the cluster is shared."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response, StreamingResponse

EVERY_SECONDS = 2.0
MOST_STREAMS = 100
_TOLD_TIME = re.compile(r"(<time [^>]*>)[^<]*")  # how long ago goes on by itself, and is no news
_ALIVE = ": alive\n\n"
_ALIVE_EVERY = 7  # rounds without news


class Streams:
    """As many as are open at once."""

    def __init__(self, every: float = EVERY_SECONDS) -> None:
        self.every = every
        self.open = 0
        self._ending = asyncio.Event()

    def end(self) -> None:
        """The server is going down: nobody waits for the next round."""
        self._ending.set()

    def of(self, look: Callable[[], str]) -> Response:
        """`look` gives the part as it is now, in a thread; it raises nothing."""
        if self.open >= MOST_STREAMS:
            return PlainTextResponse("too many live pages are open\n", 503)
        return StreamingResponse(self._told(look), media_type="text/event-stream")

    async def _told(self, look: Callable[[], str]) -> AsyncIterator[str]:
        self.open += 1
        try:
            before, silent = None, 0
            while not self._ending.is_set():
                part = await run_in_threadpool(look)
                if (news := _TOLD_TIME.sub(r"\1", part)) != before:
                    before, silent = news, 0
                    yield event("live", part)
                elif (silent := silent + 1) % _ALIVE_EVERY == 0:
                    yield _ALIVE
                await self._pause()
        finally:
            self.open -= 1

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self.every):
                await self._ending.wait()
        except TimeoutError:
            return


def event(name: str, data: str, id_: str = "") -> str:
    """As the wire has it: a field for each line, whatever ends it."""
    lines = "".join(f"data: {line}\n" for line in data.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return f"event: {name}\n{f'id: {id_}' + chr(10) if id_ else ''}{lines}\n"
