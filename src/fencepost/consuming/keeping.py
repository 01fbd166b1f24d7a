"""Where a member's positions are kept, and the order in which they and the handler's work are done.

In the group: at most once and at least once. In PostgreSQL, in the transaction that the handler writes through: exactly
once; there each member owns the rows of its own partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Event as Flag
from typing import Any, Protocol
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as DriverPartition
from psycopg.pq import TransactionStatus

from fencepost.cluster.positions import TopicReader
from fencepost.consuming.commits import (
    AsyncCommits,
    Commit,
    CommitStyle,
    StoredCommits,
    SyncCommits,
    commit_now,
    stored,
)
from fencepost.consuming.events import Event
from fencepost.consuming.handling import Handler, HandlerSink, Patiently, call
from fencepost.consuming.settings import COMMITTED, ConsumerSettings
from fencepost.delivery import Observer, at_least_once, at_most_once, deliver
from fencepost.errors import Fenced, PositionLost, RecordsGone, Refused
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Tenure, TopicPartition
from fencepost.sinks.postgres import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.session import Connection, translated

Events = list[Event]
TransactionHandler = Callable[[Events, "psycopg.Cursor[Any]"], object]


class Keeper(Protocol):
    """The positions of the partitions that a member owns."""

    def take(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """They are ours now: where to read on. Raises RecordsGone where the topic does not hold that any more."""

    def deliver(self, batch: Batch[Events]) -> Landed:
        """Process the batch and move the position, in the order of the guarantee. Raises Fenced when it is not ours."""

    def position(self, partition: TopicPartition) -> int:
        """Where it stands now."""

    def give_back(self, partitions: set[TopicPartition], finished: Batch[Events] | None) -> None:
        """They are asked back: everything that is done is durable on return, the batch in hand if it was finished."""

    def lose(self, partitions: set[TopicPartition]) -> None:
        """Somebody else has them already."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Aside:
    """What a keeper needs of its member."""

    stop: Flag
    patiently: Patiently
    see: Observer


class GroupKeeper:
    """The consumer group's own offsets."""

    def __init__(
        self, settings: ConsumerSettings, consumer: Consumer, topic: TopicReader, handler: Handler, aside: Aside
    ) -> None:
        self._settings = settings
        self._consumer = consumer
        self._topic = topic
        self._sink = HandlerSink(handler, settings.retries, aside.stop, aside.patiently)
        self._see = aside.see
        self._owned: set[TopicPartition] = set()
        self._finished: Batch[Events] | None = None  # committed when its partitions were asked back
        self._style = _style(settings, consumer)

    def take(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        known = stored(self._consumer, partitions)
        starts = resolve(self._topic, self._settings, partitions, known)
        fresh = {place: position for place, position in starts.items() if place not in known}
        if fresh:
            commit_now(self._consumer, fresh)  # resolved again after a crash, `latest` could skip
        self._owned |= set(partitions)
        return starts

    def deliver(self, batch: Batch[Events]) -> Landed:
        order = at_most_once if self._settings.guarantee is Guarantee.AT_MOST_ONCE else at_least_once
        return order(batch, self._sink, self, self._see)

    def advance(self, batch: Batch[Any]) -> None:
        """The delivery orders' `Progress`: nothing is committed of partitions that went away meanwhile."""
        if batch is self._finished:
            return
        if not set(batch.spans) <= self._owned:
            raise Fenced(f"{batch}: its partitions were given to another member")
        self._style.advance(batch)

    def position(self, partition: TopicPartition) -> int:
        return stored(self._consumer, [partition]).get(partition, 0)

    def give_back(self, partitions: set[TopicPartition], finished: Batch[Events] | None) -> None:
        try:
            if finished is not None and self._settings.guarantee is Guarantee.AT_LEAST_ONCE:
                self._style.advance(finished)
                self._finished = finished
            self._style.settle(partitions)
        finally:
            self.lose(partitions)

    def lose(self, partitions: set[TopicPartition]) -> None:
        self._owned -= partitions
        self._style.forget(partitions)

    def answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        """An asynchronous commit was answered."""
        if isinstance(self._style, AsyncCommits):
            self._style.answered(error, partitions)

    def close(self) -> None:
        """The consumer is its owner's to close."""


def _style(settings: ConsumerSettings, consumer: Consumer) -> CommitStyle:
    match settings.commit:
        case Commit.SYNC:
            return SyncCommits(consumer, settings.every)
        case Commit.ASYNC:
            return AsyncCommits(consumer, settings.every)
        case Commit.AUTO:
            return StoredCommits(consumer)


class TransactionKeeper:
    """PostgreSQL: the handler's statements and the position in one transaction, behind the fence."""

    def __init__(
        self, settings: ConsumerSettings, dsn: str, topic: TopicReader, handler: TransactionHandler, aside: Aside
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._handler = handler
        self._aside = aside
        self._run = uuid4()
        self._tenures: dict[TopicPartition, Tenure] = {}
        self._store = PostgresStore(PostgresSettings(dsn, settings.group, "", (), members=True), self._write)

    def take(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        with closing(PostgresStore(self._store.settings)) as store:  # a batch in hand has the other connection
            store.install()
            known = {at: position for at, position in store.positions(self._settings.group).items() if at in partitions}
            starts = resolve(self._topic, self._settings, partitions, known)
            ids = {self._topic.topic: self._topic.topic_id}
            tenure = store.take_over(self._settings.group, self._run, starts, ids)
        self._tenures |= dict.fromkeys(partitions, tenure)
        return {place: tenure.positions[place] for place in partitions}

    def deliver(self, batch: Batch[Events]) -> Landed:
        place, _ = batch.only_span()
        if place not in self._tenures:
            raise Fenced(f"{batch}: its partition was given to another member")
        owned: Batch[Any] = replace(batch, tenure=self._tenures[place])
        return deliver(Guarantee.EXACTLY_ONCE, owned, self._store, self._store, self._aside.see)

    def _write(self, connection: Connection, batch: Batch[Events]) -> Landed:
        def work() -> None:
            call(lambda events: self._handle(connection, events), batch.rows, self._settings.retries, self._aside.stop)

        self._aside.patiently(work)
        return Landed(rows=len(batch.rows))

    def _handle(self, connection: Connection, events: Events) -> None:
        """What a failed call has done is undone, and the transaction goes on."""
        with translated("begin the handler's work"):
            connection.execute("SAVEPOINT handler")
        try:
            with connection.cursor() as cursor:
                self._handler(events, cursor)
        except BaseException:
            with translated("undo the handler's work"):
                connection.execute("ROLLBACK TO handler")
            raise
        if connection.pgconn.transaction_status != TransactionStatus.INTRANS:
            raise Refused("the handler ended the transaction that it was given", "leave commit and rollback to us")

    def position(self, partition: TopicPartition) -> int:
        return self._store.positions(self._settings.group)[partition]

    def give_back(self, partitions: set[TopicPartition], _finished: Batch[Events] | None) -> None:
        """What is not committed yet is rolled back by the fence, and its next owner does it."""
        self.lose(partitions)

    def lose(self, partitions: set[TopicPartition]) -> None:
        for place in partitions:
            self._tenures.pop(place, None)

    def close(self) -> None:
        self._store.close()


def resolve(
    topic: TopicReader,
    settings: ConsumerSettings,
    partitions: list[TopicPartition],
    known: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The stored positions, and for the other partitions where to start. Out of range is an error, never a jump."""
    first, ends = topic.bounds(partitions)
    for place, position in known.items():
        if not first[place] <= position <= ends[place]:
            raise RecordsGone(
                f"{place}: the stored position is {position}, and the topic holds {first[place]} to {ends[place]}",
                "to go on without what is gone set the position",
            )
    if len(known) == len(partitions):
        return dict(known)
    if settings.start == COMMITTED:
        raise PositionLost(
            f"group {settings.group!r} has no position in {settings.topic!r}", "start at earliest, latest or a time"
        )
    fresh = topic.positions({}, settings.start)
    return {place: known.get(place, fresh[place]) for place in partitions}
