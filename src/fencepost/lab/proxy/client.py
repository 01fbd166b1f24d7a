"""The proxy as its users see it: in this process on a thread of its own, or in another one."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, Self

from fencepost.errors import FencepostError, Unreachable, Usage
from fencepost.lab.proxy.rules import Direction, Rule, RuleId, Witness
from fencepost.lab.proxy.server import LOOPBACK, Address, Block, Protocol, ProxyServer

_SLACK_S = 10.0
"""How much longer than a command itself its answer may take."""

ERRORS: dict[str, type[FencepostError]] = {kind.__name__: kind for kind in (Unreachable, Usage)}
"""What a proxy raises; by these names errors come back from another process."""


class ProxyControl(ABC):
    """Everything that can be asked of a proxy. All calls are synchronous and may come from any thread."""

    @abstractmethod
    def _ask(self, command: str, *, within: float = 0.0, **arguments: Any) -> Any:
        """Have one command carried out, which may take so many seconds, and return its answer."""

    def listen(self, name: str, target: Address | None, protocol: Protocol, port: int = 0) -> int:
        """Listen on a port of the loopback interface, any by default, and return it.

        Without a target connections are reset until `retarget` names one.
        """
        there = None if target is None else list(target)
        return int(self._ask("listen", name=name, protocol=protocol, target=there, port=port))

    def retarget(self, name: str, target: Address) -> None:
        """Lead new connections elsewhere."""
        self._ask("retarget", name=name, target=list(target))

    def ports(self) -> dict[str, int]:
        """The port of each listener."""
        return dict(self._ask("ports"))

    def add(self, rule: Rule) -> RuleId:
        """Put a rule in force, behind those that are.

        It takes requests that the proxy reads from now on. A client may have sent some before: an
        acknowledgement proves that it was read, the end of a send without one does not.
        """
        return RuleId(self._ask("add", rule=rule.to_json()))

    def release(self, rule: RuleId) -> None:
        """Let go what the rule holds; it fires no more."""
        self._ask("release", rule=rule)

    def clear(self) -> None:
        """Release every rule. Their witnesses stay."""
        self._ask("clear")

    def cut(self, listener: str) -> None:
        """Reset every connection of a listener, at both ends; what is held or detached there is gone."""
        self._ask("cut", listener=listener)

    def block(self, listener: str, how: Block = Block.BLACKHOLE, direction: Direction | None = None) -> None:
        """Cut a listener off from its target, both ways or (a black hole only) one way, until `unblock`."""
        self._ask("block", listener=listener, how=how, direction=direction)

    def unblock(self, listener: str) -> None:
        """Heal it. What a black hole kept is delivered now, even if its sender has given up meanwhile.

        As in a real network; `cut` before it where late requests are not wanted.
        """
        self._ask("unblock", listener=listener)

    def witness(self, rule: RuleId) -> Witness:
        """What the rule has done so far."""
        return Witness(*self._ask("witness", rule=rule))

    def wait_hits(self, rule: RuleId, n: int = 1, timeout: float = 10.0) -> Witness:
        """Wait until the rule has fired n times; Unreachable if it does not."""
        return Witness(*self._ask("wait", within=timeout, rule=rule, hits=n, done=0, timeout=timeout))

    def wait_done(self, rule: RuleId, n: int = 1, timeout: float = 10.0) -> Witness:
        """Wait until n effects of the rule are complete; Unreachable if they do not get there."""
        return Witness(*self._ask("wait", within=timeout, rule=rule, hits=0, done=n, timeout=timeout))

    def seen(self) -> Counter[tuple[str, str]]:
        """How many requests came, by (listener, request): PRODUCE, Query, COMMIT."""
        return Counter({(listener, request): times for listener, request, times in self._ask("seen")})

    def connections(self, listener: str) -> int:
        """How many connections are open, the detached ones included."""
        return int(self._ask("connections", listener=listener))


class Proxy(ProxyControl):
    """A proxy in this process. Use it in a `with` block: the end resets every connection.

    A client in this process must not wait inside C code that keeps Python's lock, as the blocking calls of
    `psycopg.pq` do: that stops the proxy too. Take the proxy's process then.
    """

    def __init__(self) -> None:
        self._server = ProxyServer()
        self._loop = asyncio.new_event_loop()
        self._closed = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # cancels what is left at its end
            runner.run(self._serve())

    async def _serve(self) -> None:
        await self._closed.wait()
        await self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything. Harmless when closed already."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._closed.set)
            self._thread.join()

    def _ask(self, command: str, *, within: float = 0.0, **arguments: Any) -> Any:
        if self._loop.is_closed():
            raise Usage("the proxy is closed")
        answer = asyncio.run_coroutine_threadsafe(self._server.answer(command, arguments), self._loop)
        return answer.result(within + _SLACK_S)


class RemoteProxy(ProxyControl):
    """A proxy in another process, by its control port."""

    def __init__(self, control_port: int) -> None:
        self._address = (LOOPBACK, control_port)

    def _ask(self, command: str, *, within: float = 0.0, **arguments: Any) -> Any:
        line = json.dumps({"command": command, **arguments}).encode() + b"\n"
        try:
            with (
                socket.create_connection(self._address, within + _SLACK_S) as connection,
                connection.makefile("rwb") as stream,
            ):
                stream.write(line)
                stream.flush()
                reply = stream.readline()
        except OSError as error:
            raise self._gone(str(error)) from error
        if not reply:
            raise self._gone("it closed the connection")
        answer = json.loads(reply)
        if "error" in answer:
            raise ERRORS[answer["error"]](answer["message"], answer["remedy"])
        return answer["result"]

    def _gone(self, why: str) -> Unreachable:
        where = "{}:{}".format(*self._address)
        return Unreachable(f"the proxy's control port {where} does not answer ({why})", "is its process alive?")
