"""The consumer group's own offsets as the place where positions are kept, for a handler whose effects are its own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from shlex import quote
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.delivery import at_least_once, at_most_once
from fencepost.engines.python.commits import AsyncCommits, Commit, CommitStyle, SyncCommits
from fencepost.engines.python.group_consumer import GroupConsumer
from fencepost.engines.python.handler import COMMITTED_FIRST, NOT_COMMITTED, Handler, HandlerSink
from fencepost.engines.python.offset_store import MemberHooks, Messages, resolve
from fencepost.engines.python.read_ahead import MOST_AHEAD, ReadAhead
from fencepost.engines.python.settings import COMMITTED, ConsumerSettings
from fencepost.errors import Fenced, Unknown, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.kafka.commits import commit_now, committed
from fencepost.kafka.offsets import TopicReader
from fencepost.model import Batch, Landed, TopicPartition


class GroupOffsetStore:
    """The consumer group's own offsets."""

    def __init__(
        self,
        settings: ConsumerSettings,
        consumer: GroupConsumer,
        topic: TopicReader,
        handler: Handler,
        hooks: MemberHooks,
    ) -> None:
        self._settings = settings
        self._consumer = consumer
        self._topic = topic
        first = settings.guarantee is Guarantee.AT_MOST_ONCE
        remedy = COMMITTED_FIRST if first else NOT_COMMITTED
        self._sink = HandlerSink(handler, settings.retries, hooks.stop, hooks.patiently, remedy)
        self._hooks = hooks
        self._owned: set[TopicPartition] = set()
        self._finished: Batch[Messages] | None = None  # committed when its partitions were asked back
        self._style = _style(settings, consumer)
        early = settings.guarantee is Guarantee.AT_MOST_ONCE and settings.commit is Commit.ASYNC
        self._ahead = ReadAhead(consumer) if early else None
        self._processed = 0  # rows that nobody was told of yet
        self._next: dict[TopicPartition, int] = {}  # where the next batch begins
        self._unread: dict[TopicPartition, int] = {}  # taken, not processed, and to be read again
        self._begin()

    @property
    def processed_though_fenced(self) -> bool:
        return self._settings.guarantee is Guarantee.AT_LEAST_ONCE

    def _begin(self) -> None:
        """The first member says where every partition starts, before it joins: `latest` means when the group began."""
        every = self._topic.require_same()
        if self._settings.start != COMMITTED and not committed(self._consumer, every):
            with suppress(Fenced):  # others are members already, and have said so
                commit_now(self._consumer, self._topic.positions({}, self._settings.start))

    def take(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        known = committed(self._consumer, partitions)
        starts = resolve(self._topic, self._settings, partitions, known, self.set_command)
        fresh = {place: position for place, position in starts.items() if place not in known}
        if fresh:
            commit_now(self._consumer, fresh)  # resolved again after a crash, `latest` could skip
        self._owned |= set(partitions)
        self._next |= starts
        return starts

    def deliver(self, batch: Batch[Messages]) -> Landed:
        self._require_no_straggler()
        if self._ahead is not None:
            return self._take_ahead(batch, self._ahead)
        order = at_most_once if self._settings.guarantee is Guarantee.AT_MOST_ONCE else at_least_once
        return order(batch, self._sink, self, self._hooks.see) if batch.rows else self._over_nothing(batch)

    def _take_ahead(self, batch: Batch[Messages], ahead: ReadAhead) -> Landed:
        """It is processed when its commit is answered; too many do not wait."""
        self._process_committed(ahead)
        while len(ahead) >= MOST_AHEAD and not self._hooks.stop.is_set():
            self._hooks.hear()
            self._process_committed(ahead)
        self._require_owned(batch)
        place, span = batch.only_span()
        if self._next[place] != span.start:
            raise Fenced(f"{batch}: its partition was revoked and assigned again meanwhile")
        ahead.add(batch)
        self._next[place] = span.end
        return self._told()

    def catch_up(self) -> Landed:
        self._require_no_straggler()
        if self._ahead is not None:
            self._process_committed(self._ahead)
        self._style.tick()
        return self._told()

    def _process_committed(self, ahead: ReadAhead) -> None:
        try:
            while (batch := ahead.next_committed()) is not None:
                if batch.rows:
                    self._processed += at_most_once(batch, self._sink, ahead, self._hooks.see).rows
                else:
                    ahead.advance(batch)
        except (Fenced, Unknown, Unreachable):
            self._unread |= ahead.drop(self._owned)
            raise

    def _told(self) -> Landed:
        rows, self._processed = self._processed, 0
        return Landed(rows)

    def waiting(self) -> set[TopicPartition]:
        return self._unread.keys() | (self._ahead.partitions() if self._ahead is not None else set())

    def _over_nothing(self, batch: Batch[Messages]) -> Landed:
        """Markers only: nothing to process, and a position that moves."""
        self.advance(batch)
        return Landed(rows=0)

    def advance(self, batch: Batch[Any]) -> None:
        """The delivery orders' `Progress`: nothing is committed of partitions that went away meanwhile."""
        if batch is self._finished:
            return
        self._require_owned(batch)
        self._style.advance(batch)
        self._next |= {place: span.end for place, span in batch.spans.items()}

    def retreat(self, _batch: Batch[Any]) -> None:
        """Never: what a handler did before it raised is done, and at most once it is not called with these again."""

    def _require_no_straggler(self) -> None:
        """Whoever leaves the group has no commits under way: what still arrives of them is refused."""
        if self._consumer.repeated:
            self._unread |= self._ahead.drop(self._owned) if self._ahead is not None else {}
            if stands := {place: self._unread.get(place, self._next[place]) for place in self._owned}:
                commit_now(self._consumer, stands)  # the straggler may have arrived already
            raise Unknown("a commit was sent twice, and its first copy may still arrive", "joining the group again")

    def _require_owned(self, batch: Batch[Any]) -> None:
        if not set(batch.spans) <= self._owned:
            raise Fenced(f"{batch}: its partitions were reassigned to another member")

    def position(self, partition: TopicPartition) -> int:
        known = self._unread.pop(partition, None)
        self._next[partition] = committed(self._consumer, [partition]).get(partition, 0) if known is None else known
        return self._next[partition]

    def set_command(self, positions: Mapping[TopicPartition, int]) -> str:
        servers, group = quote(self._settings.kafka.get("bootstrap.servers", "")), quote(self._settings.group)
        tool = f"kafka-consumer-groups.sh --bootstrap-server {servers} --group {group} --reset-offsets"
        return " and ".join(
            f"{tool} --topic {at.topic}:{at.partition} --to-offset {to} --execute"
            for at, to in sorted(positions.items())
        )

    def stands(self) -> Mapping[TopicPartition, int]:
        return committed(self._consumer, self._topic.require_same())

    def give_back(self, partitions: set[TopicPartition], finished: Batch[Messages] | None, _seconds: float) -> None:
        try:
            if finished is not None and self._settings.guarantee is Guarantee.AT_LEAST_ONCE:
                self._style.advance(finished)
                self._finished = finished
            self._style.settle(partitions)
            self._read_again_elsewhere(partitions)
        finally:
            self.lose(partitions)

    def _read_again_elsewhere(self, partitions: set[TopicPartition]) -> None:
        """What was taken ahead and never processed is their next owner's: the positions go back to before it."""
        unread = self._unread | (self._ahead.drop(partitions) if self._ahead is not None else {})
        ours = {place: start for place, start in unread.items() if place in partitions}
        if ours:
            commit_now(self._consumer, ours)

    def lose(self, partitions: set[TopicPartition]) -> None:
        self._owned -= partitions
        self._style.forget(partitions)
        if self._ahead is not None:
            self._ahead.drop(partitions)
        for place in partitions:
            self._next.pop(place, None)
            self._unread.pop(place, None)

    def answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        if self._ahead is not None:
            self._ahead.answered(error, partitions)
        elif isinstance(self._style, AsyncCommits):
            self._style.answered(error, partitions)

    def close(self) -> None:
        """The consumer is its owner's to close."""


def _style(settings: ConsumerSettings, consumer: GroupConsumer) -> CommitStyle:
    return (SyncCommits if settings.commit is Commit.SYNC else AsyncCommits)(consumer, settings.every)
