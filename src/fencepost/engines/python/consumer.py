"""A handler as the work of a run: a topic, a group, a guarantee, and a member for each attempt."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event as Flag
from typing import Any, Self

from fencepost.delivery import Observer, nobody
from fencepost.engines.listener import BatchDone, Listener, Waiting, unheard
from fencepost.engines.python.consumed import Consumed
from fencepost.engines.python.group_consumer import GroupConsumer
from fencepost.engines.python.group_offset_store import GroupOffsetStore
from fencepost.engines.python.handler import Handler
from fencepost.engines.python.handler_outputs import OutputHandler, into_topics
from fencepost.engines.python.handler_transactions import TransactionHandler, in_transaction
from fencepost.engines.python.member import Member
from fencepost.engines.python.offset_store import MemberHooks, OffsetStore
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.engines.python.sink_offset_store import SinkOffsetStore
from fencepost.errors import UnsupportedGuarantee, Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.offsets import TopicReader
from fencepost.model import Batch, Landed
from fencepost.rows.functions import require_function


@dataclass
class Consumption:
    """What the run loop runs for a handler: one member of the group after the other, each from what is stored.

    Open it with `with`; `carry` is one attempt.
    """

    settings: ConsumerSettings
    handler: Handler | TransactionHandler | OutputHandler
    dsn: str | None = field(default=None, repr=False)  # exactly once: where the handler writes
    see: Observer = nobody
    stop: Flag = field(default_factory=Flag)
    to_topics: tuple[str, ...] = ()  # where what the handler returns goes
    done: Consumed = field(default_factory=Consumed)  # by all members together
    _opened: Member | None = None  # and not run yet
    _report: Listener = unheard
    _told: int = 0  # batches

    def __post_init__(self) -> None:
        require_function(self.handler, "the handler", yields=bool(self.to_topics))
        if self.dsn is not None and self.to_topics:
            raise Usage("a PostgreSQL and a Kafka transaction cannot commit together", "write to one of the two")
        if self.to_topics:
            return
        if (self.settings.guarantee is Guarantee.EXACTLY_ONCE) != (self.dsn is not None):
            raise UnsupportedGuarantee(
                self.settings.guarantee,
                "a group's offsets and what a handler does elsewhere are not committed together"
                if self.dsn is None
                else "with a database the position goes into the handler's own transaction",
                Guarantee.AT_LEAST_ONCE if self.dsn is None else Guarantee.EXACTLY_ONCE,
                "exactly-once needs dsn=... and a handler that writes through the transaction it gets, or "
                "to_topics=... and a handler that returns the outputs",
            )

    def __enter__(self) -> Self:
        """The first member is opened: what is wrong from the start is said, not waited for."""
        self.done = Consumed()
        self._opened = self._member()
        return self

    def __exit__(self, *_failure: object) -> None:
        if self._opened is not None:  # stopped before it was run
            self._opened.leave()

    def carry(self, once: bool, report: Listener) -> None:
        """One member, until stopped or (once) drained."""
        self._report = report
        member, self._opened = self._opened or self._member(), None
        try:
            member.run(once)
        finally:
            self.done += member.done
        if self.done.left is not None:
            report(self.done.left)

    def renew(self) -> None:
        """Nothing: the next member begins where the offset store stands."""

    def landed(self) -> Landed | None:
        return Landed(self.done.events)

    def _member(self) -> Member:
        return Member(self.settings, self._offset_store, self.stop, self.see, self._tell, self._wait)

    def _tell(self, batch: Batch[Any], rows: int) -> None:
        place, span = batch.only_span()
        self._report(BatchDone(self._told, {place: span.end}, span.end - span.start, rows, dead=0, already=0))
        self._told += 1

    def _wait(self, trouble: str) -> None:
        self._report(Waiting(trouble, None))

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
