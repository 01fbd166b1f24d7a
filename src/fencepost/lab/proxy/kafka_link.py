"""A connection to a Kafka broker: responses belong to requests by correlation id, never by order."""

from __future__ import annotations

from fencepost.lab.proxy import kafka
from fencepost.lab.proxy.kafka import Api
from fencepost.lab.proxy.link import MALFORMED, Exchange, Link, LinkContext, Reset
from fencepost.lab.proxy.pipe import Peer
from fencepost.lab.proxy.rules import Call

_HEAD_READ = 1024
"""Bytes of a request that are looked at when there are rules: client id, and acks of a Produce."""


class KafkaLink(Link):
    """Frames are a size and a body; only the head of a request is read."""

    def __init__(self, shared: LinkContext, client: Peer, upstream: Peer) -> None:
        super().__init__(shared, client, upstream)
        self._pending: dict[int, Exchange] = {}  # only those that rules have to do with

    async def requests(self) -> None:
        going_on = True
        while going_on:
            await self.up.need(kafka.REQUEST.size)
            size, key, _version, correlation, _client = self.up.unpack(kafka.REQUEST)
            if size < kafka.SMALLEST_REQUEST:
                self.count(MALFORMED)
                raise Reset
            self.count(kafka.NAMES.get(key, str(key)))
            size += kafka.SIZE_FIELD
            if self.shared.rules.in_force:
                going_on = await self._under_rules(size, key, correlation)
            else:
                await self.up.forward(size)

    async def _under_rules(self, size: int, key: int, correlation: int) -> bool:
        head = await self.up.look(min(size, _HEAD_READ))
        answered = kafka.is_answered(head)
        kinds = (Api(key),) if key in kafka.NAMES else ()
        call = Call(self.shared.listener, kafka.client_id(head), kinds)
        exchange = self.exchange(call, answered=answered)
        if exchange is None:
            await self.up.forward(size)
            return True
        request = await self.up.take(size)
        if self.stops(exchange):
            return True
        if answered:
            self._pending[correlation] = exchange
        return await self.deliver(request, exchange, answered=answered)

    async def responses(self) -> None:
        while True:
            await self.down.need(kafka.RESPONSE.size)
            size, correlation = self.down.unpack(kafka.RESPONSE)
            if size < kafka.SMALLEST_RESPONSE:
                raise Reset
            size += kafka.SIZE_FIELD
            exchange = self._pending.pop(correlation, None)
            if exchange is None:
                await self.down.forward(size)
            else:
                response = await self.down.take(size)
                self.answer(exchange)
                await self.settle(response, exchange)
