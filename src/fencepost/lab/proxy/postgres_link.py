"""A connection to PostgreSQL: what a client asks is answered in cycles, each ended by ReadyForQuery."""

from __future__ import annotations

from collections import deque

from fencepost.lab.proxy import postgres
from fencepost.lab.proxy.link import MALFORMED, Exchange, Link, LinkContext, Reset
from fencepost.lab.proxy.pipe import EndOfStream, Peer
from fencepost.lab.proxy.postgres import Message, Session, Statement
from fencepost.lab.proxy.rules import Action, Call, Request

_NOT_ENCRYPTED = b"N"


class Cycle:
    """What one ReadyForQuery answers."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.synced = False  # ended by Sync

    @property
    def ruled(self) -> Exchange | None:
        """The exchange whose rule takes the answer of the cycle."""
        return next((exchange for exchange in self.exchanges if exchange.on_response), None)


class Cycles:
    """The cycles that are not answered yet, oldest first; the last one is still being asked."""

    def __init__(self) -> None:
        self._open = deque([Cycle()])

    @property
    def answering(self) -> Cycle:
        return self._open[0]

    def of(self, message: Message) -> Cycle:
        """The cycle that a message belongs to."""
        return self._open[0] if message in postgres.ENDS_COPY else self._open[-1]

    def sent(self, message: Message) -> None:
        if message in postgres.ENDS_CYCLE:
            self._open[-1].synced = message is Message.SYNC
            self._open.append(Cycle())

    def copy_began(self) -> None:
        """The server ignores a Sync right behind the Execute of a COPY; the client will send another."""
        if self._open[0].synced and len(self._open) > 1:
            self._open[0].synced = False
            self._open[0].exchanges += self._open.pop().exchanges

    def ready(self) -> None:
        if len(self._open) > 1:
            self._open.popleft()


class PostgresLink(Link):
    """Follows statements through both query protocols. Encryption is declined, or nothing could be read."""

    def __init__(self, shared: LinkContext, client: Peer, upstream: Peer) -> None:
        super().__init__(shared, client, upstream)
        self._session = Session()
        self._cycles = Cycles()
        self._application = ""
        self._copied = 0  # bytes of the present COPY
        self._reply = bytearray()  # so far, where a rule has to see it in full

    async def requests(self) -> None:
        going_on = await self._startup()
        while going_on:
            message, size = await self._header()
            going_on = await self._message(message, size)

    async def _header(self) -> tuple[Message, int]:
        """The next message's kind and size; it stays where it is."""
        await self.up.need(postgres.HEADER.size)
        kind, length = self.up.unpack(postgres.HEADER)
        message = postgres.MESSAGES.get(kind)
        if message is None or length < postgres.LENGTH_FIELD:
            self.count(MALFORMED)
            raise Reset
        return message, 1 + length

    async def _startup(self) -> bool:
        while True:
            await self.up.need(postgres.STARTUP_HEADER.size)
            length, code = self.up.unpack(postgres.STARTUP_HEADER)
            if not postgres.STARTUP_HEADER.size <= length <= postgres.LARGEST_STARTUP:
                self.count(MALFORMED)
                raise Reset
            if code not in (postgres.SSL_REQUEST, postgres.GSSENC_REQUEST):
                break
            await self.up.take(length)
            await self.down.send(_NOT_ENCRYPTED)
        packet = await self.up.look(length)
        if code == postgres.CANCEL_REQUEST:
            return await self._pass(Message.CANCEL, length, (Message.CANCEL,))
        self._application = postgres.application_name(packet)
        return await self._pass(Message.STARTUP, length, (Message.STARTUP,))

    async def _message(self, message: Message, size: int) -> bool:
        if message is Message.COPY_DATA:
            begin = self._copied
            self._copied += size - postgres.HEADER.size
            return await self._pass(message, size, (message,), range(begin, self._copied))
        return await self._pass(message, size, await self._kinds(message, size))

    async def _kinds(self, message: Message, size: int) -> tuple[Request, ...]:
        """What rules may call this message: its kind, and the statement that it runs."""
        self._copied = 0
        head = await self.up.look(min(size, postgres.HEADER.size + postgres.BODY_READ))
        keyword = self._session.statement(message, head[postgres.HEADER.size :])
        if keyword:
            self.count(keyword)
        return (message, Statement(keyword)) if keyword else (message,)

    async def _pass(self, message: Message, size: int, kinds: tuple[Request, ...], copied: range = range(0)) -> bool:
        self.count(message.value)
        answered = message in postgres.ANSWERED
        cycle = self._cycles.of(message)
        exchange = None
        if self.shared.rules.in_force:
            call = Call(self.shared.listener, self._application, kinds, copied)
            exchange = self.exchange(call, answered=answered and cycle.ruled is None)
        if exchange is None:
            self._cycles.sent(message)
            await self.up.forward(size)
            return True
        request = await self.up.take(size)
        if exchange.on_request and exchange.on_request.rule.action in (Action.DROP, Action.HOLD_DETACH):
            message, request = await self._up_to_sync(message, request)
        await self._send_up_to(exchange, request, copied)
        if self.stops(exchange):
            return True
        if answered:
            cycle.exchanges.append(exchange)
        self._cycles.sent(message)
        return await self.deliver(request, exchange, answered=answered)

    async def _up_to_sync(self, message: Message, request: bytes) -> tuple[Message, bytes]:
        """With the rest of an extended query: a late one needs its Sync, a dropped one must not have it."""
        while message in postgres.EXTENDED or message is Message.FLUSH:
            message, size = await self._header()
            await self._kinds(message, size)
            self.count(message.value)
            request += await self.up.take(size)
        return message, request

    async def _send_up_to(self, exchange: Exchange, request: bytes, copied: range) -> None:
        """A cut after n bytes of a COPY: those n do arrive, in an unfinished message."""
        rule = exchange.on_request.rule if exchange.on_request else None
        if rule and rule.action is Action.RESET and rule.after_bytes is not None:
            await self.up.send(request[: postgres.HEADER.size + rule.after_bytes - copied.start])

    async def responses(self) -> None:
        try:
            while True:
                await self.down.need(postgres.HEADER.size)
                kind, length = self.down.unpack(postgres.HEADER)
                if kind in (postgres.COPY_IN, postgres.COPY_BOTH):
                    self._cycles.copy_began()
                await self._part_of_reply(kind, 1 + length)
        except EndOfStream:
            await self.down.send(bytes(self._reply))  # the server went away in the middle of it
            raise

    async def _part_of_reply(self, kind: int, size: int) -> None:
        """Pass on one message from the server, or gather it where a rule takes the whole answer."""
        cycle = self._cycles.answering
        ruled = cycle.ruled
        if ruled is None:
            await self.down.forward(size)
        else:
            self._reply += await self.down.take(size)
        if kind == postgres.READY_FOR_QUERY:
            self._answer(cycle)
        if ruled and kind in postgres.TURNS:
            await self.down.send(self._whole_reply())
        if ruled and kind == postgres.READY_FOR_QUERY:
            await self.settle(self._whole_reply(), ruled)

    def _whole_reply(self) -> bytes:
        reply = bytes(self._reply)
        self._reply.clear()
        return reply

    def _answer(self, cycle: Cycle) -> None:
        self._cycles.ready()
        for exchange in cycle.exchanges:
            self.answer(exchange)
