"""`consume`: a handler, a topic, a group, a guarantee. Trouble ends a member; the next starts from what is stored."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import Any

from confluent_kafka import Consumer

from fencepost.cluster.positions import TopicReader
from fencepost.consuming.commits import Commit
from fencepost.consuming.handling import Handler
from fencepost.consuming.keeping import Aside, GroupKeeper, Keeper, StoreKeeper
from fencepost.consuming.member import Consumed, Member
from fencepost.consuming.settings import ConsumerSettings, Per
from fencepost.consuming.transactions import TransactionHandler, in_transaction
from fencepost.delivery import Observer, nobody
from fencepost.errors import Rewound, Unknown, Unreachable, UnsupportedGuarantee
from fencepost.guarantee import Guarantee

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0


@dataclass
class Consumption:
    """One member's work, through all the members that it takes."""

    settings: ConsumerSettings
    handler: Handler | TransactionHandler
    dsn: str | None = field(default=None, repr=False)  # exactly once: where the handler writes
    see: Observer = nobody
    seen: Callable[[Consumed], None] = lambda _: None
    waits: Callable[[Exception, float], None] = lambda _error, _seconds: None
    stop: Flag = field(default_factory=Flag)

    def __post_init__(self) -> None:
        if (self.settings.guarantee is Guarantee.EXACTLY_ONCE) != (self.dsn is not None):
            raise UnsupportedGuarantee(
                self.settings.guarantee,
                "a group's offsets and what a handler does elsewhere are not committed together"
                if self.dsn is None
                else "with a database the position goes into the handler's own transaction",
                Guarantee.AT_LEAST_ONCE if self.dsn is None else Guarantee.EXACTLY_ONCE,
                "exactly once goes with dsn=..., and a handler that writes through the transaction it is given",
            )

    def run(self, once: bool = False) -> Consumed:
        """Until stopped, or (once) drained. Goes on by itself after an outage; raises what a person must mend."""
        total, failures = Consumed(), 0
        member = self._member()  # what is wrong from the start is said, not waited for
        while True:
            try:
                member.run(once)
                return total + member.done
            except (Unreachable, Unknown, Rewound) as trouble:
                total += member.done
                failures = 1 if member.done.batches else failures + 1
                seconds = min(FIRST_WAIT * 2**failures, LONGEST_WAIT) * random.uniform(0.5, 1.0)  # noqa: S311
                self.waits(trouble, seconds)
                if self.stop.wait(seconds):
                    return total
            member = self._next_member() or member
            if self.stop.is_set():
                return total

    def _member(self) -> Member:
        return Member(self.settings, self._keeper, self.stop, self.see, self.seen)

    def _next_member(self) -> Member | None:
        """When Kafka answers again; None when it was stopped before."""
        while not self.stop.is_set():
            try:
                return self._member()
            except Unreachable as trouble:
                self.waits(trouble, FIRST_WAIT)
                self.stop.wait(FIRST_WAIT)
        return None

    def _keeper(self, consumer: Consumer, topic: TopicReader, aside: Aside) -> Keeper:
        handler: Any = self.handler  # which of the two it is follows from the guarantee
        if self.dsn is not None:
            carriage = in_transaction(self.settings, self.dsn, handler, self.stop)
            return StoreKeeper(self.settings, carriage, topic, aside)
        return GroupKeeper(self.settings, consumer, topic, handler, aside)


def consume(  # noqa: PLR0913 (what a member is)
    handler: Handler | TransactionHandler,
    *,
    topic: str,
    group: str,
    guarantee: Guarantee | str,
    kafka: Mapping[str, str],
    dsn: str | None = None,
    once: bool = False,
    **options: Any,
) -> Consumed:
    """Have a handler called with a topic's events under a guarantee, as a member of a consumer group.

    `handler(events)`; under exactly-once, with `dsn`, `handler(events, tx)`: everything that it writes through the
    cursor `tx` is committed together with the position. Options are those of ConsumerSettings: commit ("sync",
    "async", "auto"), per ("record", "batch", or seconds), start, batch, retries.
    """
    options |= {"commit": Commit(options.get("commit", Commit.SYNC))}
    if isinstance(options.get("per"), str):
        options["per"] = Per(options["per"])
    settings = ConsumerSettings(kafka, topic, group, Guarantee(guarantee), **options)
    return Consumption(settings, handler, dsn).run(once)
