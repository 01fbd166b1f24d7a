"""The proxy itself, inside an event loop: listeners, and the one place where commands are carried out."""

from __future__ import annotations

import asyncio
from collections import Counter
from enum import StrEnum
from typing import Any

from fencepost.errors import Unreachable, Usage
from fencepost.lab.proxy.kafka_link import KafkaLink
from fencepost.lab.proxy.link import Link, LinkContext
from fencepost.lab.proxy.pipe import CHUNK, Peer
from fencepost.lab.proxy.postgres_link import PostgresLink
from fencepost.lab.proxy.rules import Direction, Rule, RuleId, RuleSet, Witness

LOOPBACK = "127.0.0.1"

Address = tuple[str, int]


class Protocol(StrEnum):
    """What is spoken at a listener."""

    KAFKA = "kafka"
    POSTGRES = "postgres"


class Block(StrEnum):
    """How a listener is cut off from its target."""

    BLACKHOLE = "blackhole"  # connections stay and nothing passes; unblocking lets through what was on its way
    REFUSE = "refuse"  # connections are reset, new ones as well


_LINKS: dict[Protocol, type[Link]] = {Protocol.KAFKA: KafkaLink, Protocol.POSTGRES: PostgresLink}


class Listener:
    """One port, and the connections that came in through it."""

    def __init__(self, shared: LinkContext, protocol: Protocol, target: Address | None) -> None:
        self.target = target  # of new connections; None: not known yet, they are reset
        self.port = 0
        self._shared = shared
        self._protocol = protocol
        self._links: set[asyncio.Task[None]] = set()
        self._refusing = False
        self._server: asyncio.Server | None = None
        self.unblock()

    async def open(self, port: int) -> None:
        self._server = await asyncio.start_server(self._accept, LOOPBACK, port, limit=CHUNK)
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def connections(self) -> int:
        return len(self._links)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Peer(reader, writer)
        task = asyncio.create_task(self._connect(client))
        self._links.add(task)
        task.add_done_callback(self._links.discard)
        task.add_done_callback(lambda _: client.reset())  # however it ended, even before its first step

    async def _connect(self, client: Peer) -> None:
        await self._shared.gates[Direction.REQUEST].wait()
        if self._refusing or self.target is None:
            return
        if upstream := await _dial(self.target):
            await _LINKS[self._protocol](self._shared, client, upstream).run()

    def block(self, how: Block, direction: Direction | None) -> None:
        self._refusing = how is Block.REFUSE
        if self._refusing:
            self.cut()
        for way, gate in self._shared.gates.items():
            if self._refusing:
                gate.set()
            elif direction in (None, way):
                gate.clear()

    def unblock(self) -> None:
        self._refusing = False
        for gate in self._shared.gates.values():
            gate.set()

    def cut(self) -> None:
        for link in self._links:
            link.cancel()

    async def close(self) -> None:
        if self._server:
            self._server.close()
        self.cut()
        await asyncio.gather(*self._links, return_exceptions=True)


class ProxyServer:
    """Listeners and rules. Commands are JSON values in and out, whoever sends them."""

    def __init__(self) -> None:
        self._listeners: dict[str, Listener] = {}
        self._rules = RuleSet()
        self._seen: Counter[tuple[str, str]] = Counter()

    async def answer(self, command: str, arguments: dict[str, Any]) -> Any:
        """Carry out one command. Raises Usage where it makes no sense."""
        carry_out = getattr(self, f"do_{command}", None)
        if carry_out is None:
            raise Usage(f"the proxy has no command {command!r}")
        try:
            return await carry_out(**arguments)
        except (TypeError, ValueError) as error:
            raise Usage(f"{command} does not take {arguments} ({error})") from error

    async def close(self) -> None:
        """Reset every connection, the detached ones too, and listen no more."""
        for listener in self._listeners.values():
            await listener.close()

    def _listener(self, name: str) -> Listener:
        if name not in self._listeners:
            raise Usage(f"no listener {name!r}", f"there are {sorted(self._listeners)}")
        return self._listeners[name]

    async def do_listen(self, name: str, protocol: str, target: list[Any] | None, port: int) -> int:
        if name in self._listeners:
            raise Usage(f"listener {name!r} exists", "use retarget to change where it leads")
        gates = {direction: asyncio.Event() for direction in Direction}
        shared = LinkContext(name, self._rules, self._seen, gates)
        listener = Listener(shared, Protocol(protocol), _address(target))
        try:
            await listener.open(port)
        except OSError as error:
            raise Usage(f"port {port} cannot be listened on: {error}", "take another, or 0 for any") from error
        self._listeners[name] = listener
        return listener.port

    async def do_retarget(self, name: str, target: list[Any]) -> None:
        self._listener(name).target = _address(target)

    async def do_ports(self) -> dict[str, int]:
        return {name: listener.port for name, listener in self._listeners.items()}

    async def do_add(self, rule: dict[str, Any]) -> RuleId:
        added = Rule.from_json(rule)
        if added.listener is not None:
            self._listener(added.listener)
        return self._rules.add(added)

    async def do_release(self, rule: RuleId) -> None:
        self._rules.release(rule)

    async def do_clear(self) -> None:
        self._rules.clear()

    async def do_cut(self, listener: str) -> None:
        self._listener(listener).cut()

    async def do_block(self, listener: str, how: str, direction: str | None) -> None:
        if direction and how == Block.REFUSE:
            raise Usage("a listener refuses both ways", "use blackhole to block one direction")
        self._listener(listener).block(Block(how), Direction(direction) if direction else None)

    async def do_unblock(self, listener: str) -> None:
        self._listener(listener).unblock()

    async def do_witness(self, rule: RuleId) -> Witness:
        return self._rules.find(rule).witness

    async def do_wait(self, rule: RuleId, hits: int, done: int, timeout: float) -> Witness:
        armed = self._rules.find(rule)
        try:
            async with asyncio.timeout(timeout):
                await armed.until(lambda seen: seen.hits >= hits and seen.done >= done)
        except TimeoutError:
            seen = armed.witness
            wanted = f"{hits} hits" if hits else f"{done} done"
            counted = f"{seen.hits} hits and {seen.done} done"
            raise Unreachable(
                f"rule {rule}, {armed.rule}: {counted} in {timeout} s, not {wanted}",
                "does the client connect through the proxy, and does it send that request?",
            ) from None
        return armed.witness

    async def do_seen(self) -> list[tuple[str, str, int]]:
        return [(listener, request, times) for (listener, request), times in self._seen.items()]

    async def do_connections(self, listener: str) -> int:
        return self._listener(listener).connections


async def _dial(target: Address) -> Peer | None:
    """A connection to the target; None when nobody listens there, which the client learns by a reset."""
    try:
        return Peer(*await asyncio.open_connection(*target, limit=CHUNK))
    except OSError:
        return None


def _address(target: list[Any] | None) -> Address | None:
    if target is None:
        return None
    host, port = target
    return str(host), int(port)
