"""One client's connection with its own connection upstream, and what rules do to the exchanges on it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field

from fencepost.lab.proxy.pipe import EndOfStream, Peer, Pipe
from fencepost.lab.proxy.rules import Action, ArmedRule, Call, Direction, RuleSet

MALFORMED = "malformed"
"""What a request is counted as that is not of the listener's protocol; its connection is reset."""


class Reset(Exception):
    """The client's connection has to be reset."""


@dataclass(eq=False, slots=True)
class Exchange:
    """A request that rules have taken, or will take the response of."""

    on_request: ArmedRule | None
    on_response: ArmedRule | None
    answered: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class LinkContext:
    """What the links of one listener share."""

    listener: str
    rules: RuleSet
    seen: Counter[tuple[str, str]]
    gates: dict[Direction, asyncio.Event]  # closed while the listener is blocked in that direction


class Link(ABC):
    """Reads both directions by frames until one side ends. Each protocol knows its own frames."""

    def __init__(self, shared: LinkContext, client: Peer, upstream: Peer) -> None:
        self.shared = shared
        self.up = Pipe(client, upstream, shared.gates[Direction.REQUEST])
        self.down = Pipe(upstream, client, shared.gates[Direction.RESPONSE])
        self._client = client
        self._upstream = upstream
        self._detached = False

    @abstractmethod
    async def requests(self) -> None:
        """Pass on requests until the client ends (EndOfStream), or until a detached one is answered."""

    @abstractmethod
    async def responses(self) -> None:
        """Pass on responses until the server ends (EndOfStream)."""

    async def run(self) -> None:
        """Until the connection is over; when cancelled, both ends see a reset."""
        pumps = [asyncio.create_task(self._pump_requests()), asyncio.create_task(self._pump_responses())]
        try:
            done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in done:
                pump.result()
            await self._client.finish()
            await self._upstream.finish()
        except Reset:
            self._client.reset()
            await self._upstream.finish()  # what was forwarded before the reset does arrive
        finally:
            for pump in pumps:
                pump.cancel()
            self._client.reset()
            self._upstream.reset()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump_requests(self) -> None:
        try:
            await self.requests()
        except EndOfStream:
            await self.up.end()
            await asyncio.Event().wait()  # the server ends the link, having read everything

    async def _pump_responses(self) -> None:
        try:
            await self.responses()
        except EndOfStream:
            await self.down.rest()
            if self.down.was_reset:
                raise Reset from None
            await self.down.end()

    def count(self, name: str) -> None:
        self.shared.seen[self.shared.listener, name] += 1

    def exchange(self, call: Call, *, answered: bool) -> Exchange | None:
        """The rules that take this request and its response, if there are any."""
        rules = self.shared.rules
        on_request = rules.first(Direction.REQUEST, call)
        on_response = rules.first(Direction.RESPONSE, call) if answered else None
        return Exchange(on_request, on_response) if on_request or on_response else None

    def stops(self, exchange: Exchange) -> bool:
        """Does the request end here? Then it is neither delivered nor answered."""
        rule = exchange.on_request
        if rule is None or rule.rule.action not in (Action.DROP, Action.RESET):
            return False
        rule.hit()
        rule.finish()
        if rule.rule.action is Action.RESET:
            raise Reset
        return True

    async def deliver(self, request: bytes, exchange: Exchange, *, answered: bool) -> bool:
        """Send a request that was read in full, when its rule says so. False: it was the link's last."""
        rule = exchange.on_request
        if rule:
            if rule.rule.action is Action.HOLD_DETACH:
                self._detach()
            rule.hit()
            await rule.pause()
        await self.up.send(request)
        if not answered:
            self.answer(exchange)
        if self._detached:
            await exchange.answered.wait()
        return not self._detached

    def answer(self, exchange: Exchange) -> None:
        """Its response is here, or it was delivered and none is due."""
        if exchange.on_request:
            exchange.on_request.finish()
        exchange.answered.set()

    async def settle(self, response: bytes, exchange: Exchange) -> None:
        """Do with a response that was read in full as its rule says."""
        rule = exchange.on_response
        if rule is None:
            return await self.down.send(response)
        if rule.rule.action is Action.HOLD_DETACH:
            self._detach()
        rule.hit()
        await rule.pause()
        if rule.rule.action in (Action.FORWARD, Action.HOLD, Action.DELAY):
            await self.down.send(response)
        rule.finish()
        if rule.rule.action in (Action.RESET, Action.HOLD_DETACH):
            raise Reset
        return None

    def _detach(self) -> None:
        """Cut the client off; the connection upstream stays."""
        self._detached = True
        self.down.abandon()
        self._client.reset()
