"""A handler, a topic, a group, a guarantee. Trouble ends a member; the next starts from what is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import Any

from fencepost.delivery import Observer, nobody
from fencepost.engines.backoff import Backoff
from fencepost.engines.python.group_consumer import GroupConsumer
from fencepost.engines.python.group_offset_store import GroupOffsetStore
from fencepost.engines.python.handler import Handler
from fencepost.engines.python.handler_outputs import OutputHandler, into_topics
from fencepost.engines.python.handler_transactions import TransactionHandler, in_transaction
from fencepost.engines.python.member import Consumed, Member
from fencepost.engines.python.offset_store import MemberHooks, OffsetStore
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.engines.python.sink_offset_store import SinkOffsetStore
from fencepost.errors import FencepostError, Rewound, Unknown, Unreachable, UnsupportedGuarantee, Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.offsets import TopicReader
from fencepost.rows.functions import require_function


@dataclass
class Consumption:
    """One member's work, through all the members that it takes."""

    settings: ConsumerSettings
    handler: Handler | TransactionHandler | OutputHandler
    dsn: str | None = field(default=None, repr=False)  # exactly once: where the handler writes
    see: Observer = nobody
    seen: Callable[[Consumed], None] = lambda _: None
    waits: Callable[[Exception, float], None] = lambda _error, _seconds: None
    tells: Callable[[str], None] = lambda _sentence: None  # what it waits for
    stop: Flag = field(default_factory=Flag)
    to_topics: tuple[str, ...] = ()  # where what the handler returns goes

    def __post_init__(self) -> None:
        require_function(self.handler, "the handler", yields=bool(self.to_topics))
        if self.dsn is not None and self.to_topics:
            raise Usage("a transaction of PostgreSQL's and one of Kafka's cannot be one", "write to one of the two")
        if self.to_topics:
            return
        if (self.settings.guarantee is Guarantee.EXACTLY_ONCE) != (self.dsn is not None):
            raise UnsupportedGuarantee(
                self.settings.guarantee,
                "a group's offsets and what a handler does elsewhere are not committed together"
                if self.dsn is None
                else "with a database the position goes into the handler's own transaction",
                Guarantee.AT_LEAST_ONCE if self.dsn is None else Guarantee.EXACTLY_ONCE,
                "exactly once goes with dsn=..., and a handler that writes through the transaction it is given, "
                "or with to_topics=..., and a handler that returns what is to be written there",
            )

    def run(self, once: bool = False) -> Consumed:
        """Until stopped, or (once) drained. Goes on by itself after an outage; raises what a person must mend."""
        total, backoff = Consumed(), Backoff(once)
        member: Member | None = self._member()  # what is wrong from the start is said, not waited for
        while member is not None or not self.stop.is_set():  # one that is there is run, and thereby closed
            try:
                member = member or self._member()
                member.run(once)
                return total + member.done
            except (Unreachable, Unknown, Rewound) as trouble:
                if member is not None:
                    total += member.done
                    if member.done.batches:
                        backoff.renew()
                self._wait(backoff, trouble)
                member = None
        return total

    def _member(self) -> Member:
        return Member(self.settings, self._offset_store, self.stop, self.see, self.seen, self.tells)

    def _wait(self, backoff: Backoff, trouble: FencepostError) -> None:
        seconds = backoff.next_wait(trouble)
        self.waits(trouble, seconds)
        self.stop.wait(seconds)

    def _offset_store(self, consumer: GroupConsumer, topic: TopicReader, hooks: MemberHooks) -> OffsetStore:
        handler: Any = self.handler  # which of them it is follows from where its work goes
        if self.to_topics:
            return SinkOffsetStore(
                self.settings, into_topics(self.settings, self.to_topics, handler, self.stop), topic, hooks
            )
        if self.dsn is not None:
            delivery = in_transaction(self.settings, self.dsn, handler, self.stop)
            return SinkOffsetStore(self.settings, delivery, topic, hooks)
        return GroupOffsetStore(self.settings, consumer, topic, handler, hooks)
