"""The store: records and positions of the source in one transaction per source partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from fencepost import fence
from fencepost.errors import Rewound, Unreachable, Usage
from fencepost.fence import StoredPosition
from fencepost.kafka.client import Cluster
from fencepost.kafka.limits import limits
from fencepost.kafka.producer import Client
from fencepost.model import Batch, Landed, Tenure, TopicPartition
from fencepost.rows.spool import read_ahead
from fencepost.sinks.kafka import takeover
from fencepost.sinks.kafka.fenced_producer import FencedProducer, telling
from fencepost.sinks.kafka.ledger import Group, Held, offset_of
from fencepost.sinks.kafka.letters import Apart, apart, letter_records
from fencepost.sinks.kafka.outputs import Make, Outputs, arrow_records, one_by_one
from fencepost.sinks.kafka.sending import Sending
from fencepost.sinks.kafka.settings import MANY, KafkaSettings


class KafkaStore:
    """An atomic sink. One process owns a source partition at a time, and holds its transactional.id.

    A batch has one span: positions of several partitions cannot move together behind a fence. One thread at a time.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        outputs: Outputs | None = None,
        records: Make = arrow_records,
        *,
        reuse: bool = True,
    ) -> None:
        """`outputs`, or `records`, makes of a batch's rows what is written.

        `reuse`: a producer is kept for its partition's next batch. Not where that may come to another process, as
        Spark's tasks do: what this one remembers of the position would be wrong by then.
        """
        self.settings = settings
        self._reuse = reuse
        self._records = one_by_one(outputs) if outputs else records
        self._batching = settings.batching(MANY) if reuse and not outputs else {}  # else by the size of each batch
        self._groups: dict[str, Group] = {}
        self._producers: dict[tuple[str, TopicPartition], FencedProducer] = {}

    # -- the sink

    def write(self, batch: Batch[Any]) -> Landed:
        """Rows in a transaction of their own: for the two guarantees that take two steps."""
        producer, rows = self._producer(batch), self._ahead(batch)
        try:
            producer.ready()
            with producer.transaction() as client:
                landed = self._send(client, rows)
            self._spare(producer)
            return landed
        except Rewound as displaced:  # nothing is written: after an advance that is a loss, and must be heard of
            raise Unreachable(displaced.message, displaced.remedy) from displaced

    @contextmanager
    def transaction(self, batch: Batch[Any]) -> Iterator[KafkaTransaction]:
        rows = self._ahead(batch)
        with self._own_transaction(batch) as client:
            yield KafkaTransaction(self, client, rows)

    # -- the ledger

    def positions(self, pipeline: str) -> Mapping[TopicPartition, int]:
        return {at: held.position for at, held in self.stored(pipeline).items()}

    def stored(self, pipeline: str) -> Held:
        """The same with their owners."""
        group = self._group(pipeline)
        return group.seen(group.partitions())

    def done(self, batch: Batch[Any]) -> bool:
        """From memory for as long as nobody else can have moved the position; else the group is asked.

        After a commit without an answer the transactional.id is taken again first: that decides it.
        """
        self._spare(self._producer(batch))
        return fence.landed(self._held(batch), batch)

    def advance(self, batch: Batch[Any]) -> None:
        """A span that is empty stores the position again, so that an idle partition's does not expire."""
        with self._own_transaction(batch) as client:
            self._move(client, batch)

    def retreat(self, batch: Batch[Any]) -> None:
        producer, (partition, span) = self._producer(batch), batch.only_span()
        producer.ready()
        fence.require_end(held := self._held(batch), batch)
        back = replace(held[partition], position=span.start)
        with producer.transaction() as client, telling():
            client.send_offsets([offset_of(partition, back)], self._group(batch.tenure.pipeline).metadata)
        producer.learn(back)
        self._spare(producer)

    def require_same(self, pipeline: str, topic_ids: Mapping[str, str]) -> None:
        group = self._group(pipeline)
        fence.require_same_topics(pipeline, group.seen(group.partitions(topic_ids)), topic_ids)

    def take_over(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Tenure:
        group = self._group(pipeline)
        every = group.partitions({at.topic for at in first} | topic_ids.keys())

        def owned(held: Held) -> Held:
            takeover.require_ours(group.name, held)
            fence.require_same_topics(pipeline, held, topic_ids)
            if not held and not any(one.owner for one in self.stored(pipeline).values()):  # of no topic at all
                self._require_empty(pipeline)
            epoch = fence.newest_epoch(held) + 1
            return {
                at: takeover.owned(held.get(at), offset, run, epoch, topic_ids.get(at.topic))
                for at, offset in first.items()
            }

        owned(group.seen(every))  # first: a start that is refused disturbs nobody
        taken = self._claim(pipeline, first, lambda held: owned({**group.seen(set(every) - first.keys()), **held}))
        return takeover.tenure(pipeline, run, taken)

    def begin(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> None:
        """Positions for partitions that have none; the owners of the others keep them."""
        held = self._group(pipeline).seen(first)
        if missing := {at: offset for at, offset in first.items() if at not in held}:
            self.take_over(pipeline, run, missing, topic_ids)

    def renew(self, tenure: Tenure, run: UUID) -> Tenure:
        group = self._group(tenure.pipeline)

        def renewed(held: Held) -> Held:
            fence.require_own(held, tenure, run)
            return {at: replace(held[at], owner=run) for at in tenure.positions}

        if (held := group.glance(tenure.positions)) is not None:
            renewed(held)  # first: a run that was replaced must not disturb its successor
        taken = self._claim(tenure.pipeline, tenure.positions, renewed)
        return tenure.renewed(run, {at: held.position for at, held in taken.items()})

    def set_positions(
        self,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Put the positions of these topics elsewhere by hand; a run that is under way ends as fenced.

        `kept`: partitions that stay where they are, each with where to begin if nothing is stored of it.
        """
        group, nobody, stay = self._group(pipeline), uuid4(), kept or {}
        every, topics = group.seen(group.partitions()), {at.topic for at in (*positions, *stay)}
        concerned = {at for at in every if at.topic in topics} | positions.keys() | stay.keys()

        def moved(held: Held) -> Held:
            epoch = fence.newest_epoch({**every, **held}) + 1
            ours = {at: held[at].position if at in held and held[at].owner else first for at, first in stay.items()}
            wanted = {**dict.fromkeys(concerned, 0), **ours, **positions}
            put = {at: StoredPosition(to, nobody, epoch, topic_ids.get(at.topic)) for at, to in wanted.items()}
            return {at: replace(one, begun=takeover.begun(held.get(at), one)) for at, one in put.items()}

        self._claim(pipeline, concerned, moved, forgotten=concerned - positions.keys() - stay.keys())
        self.release(concerned)

    def _require_empty(self, pipeline: str) -> None:
        """Raises PositionLost where the targets hold something of which no position is stored."""
        takeover.require_empty_targets(self.settings.kafka, pipeline, self.settings.topics)

    # -- its clients

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """They are somebody else's from now on: end the clients that held them."""
        gone = set(partitions)
        for key in [key for key in self._producers if key[1] in gone]:
            self._producers.pop(key).leave()

    def close(self) -> None:
        self.release([partition for _, partition in self._producers])
        while self._groups:
            self._groups.popitem()[1].close()

    def _group(self, pipeline: str) -> Group:
        if pipeline not in self._groups:
            self._groups[pipeline] = Group(self.settings.kafka, self.settings.group(pipeline))
        return self._groups[pipeline]

    def _producer(self, batch: Batch[Any]) -> FencedProducer:
        if len(batch.spans) != 1:
            raise Usage(f"{batch}: the Kafka sink takes one source partition at a time")
        return self._producer_of(batch.tenure.pipeline, batch.only_span()[0])

    def _producer_of(self, pipeline: str, partition: TopicPartition) -> FencedProducer:
        key = (pipeline, partition)
        if key not in self._producers:
            if not self.settings.longest_ms:
                with Cluster(self.settings.kafka) as cluster:
                    self.settings = self.settings.within(limits(cluster))
            name = self.settings.transactional_id(pipeline, partition)
            settings = self.settings.producer(name) | self._batching
            self._producers[key] = FencedProducer(settings, self.settings.topics[0])
        return self._producers[key]

    def _claim(
        self,
        pipeline: str,
        partitions: Iterable[TopicPartition],
        change: takeover.Change,
        forgotten: Collection[TopicPartition] = (),
    ) -> Held:
        producers = {partition: self._producer_of(pipeline, partition) for partition in partitions}
        held = takeover.claim(self._group(pipeline), producers, change, forgotten)
        for producer in producers.values():
            self._spare(producer)
        return held

    def _spare(self, producer: FencedProducer) -> None:
        """Nothing of it is open: end its client, unless it is kept for the next transaction."""
        if not self._reuse and producer.taken:
            producer.leave()

    # -- one batch

    def _held(self, batch: Batch[Any]) -> Held:
        partition, _ = batch.only_span()
        found = self._stored_of(batch)
        return {} if found is None else {partition: found}

    def _stored_of(self, batch: Batch[Any]) -> StoredPosition | None:
        producer, (partition, _) = self._producer(batch), batch.only_span()
        group = self._group(batch.tenure.pipeline)
        if not producer.taken and not producer.in_doubt and (held := group.glance([partition])) is not None:
            return held.get(partition)
        if not producer.taken:
            producer.take()  # an attempt before this one holds the position, or nobody knows: now it is decided
        if not producer.known:
            producer.learn(group.settled([partition]).get(partition))
        return producer.stored

    @contextmanager
    def _own_transaction(self, batch: Batch[Any]) -> Iterator[Client]:
        """A transaction that begins where the batch does, and moves the position to where it ends."""
        producer, (partition, span) = self._producer(batch), batch.only_span()
        producer.ready()
        fence.require_start(held := self._held(batch), batch)
        with producer.transaction() as client:
            yield client
        producer.learn(replace(held[partition], position=span.end))
        self._spare(producer)

    def _ahead(self, batch: Batch[Any]) -> Apart:
        """The batch's rows, read before its transaction begins: a transform may take longer than that has time.

        Meanwhile its producer connects.
        """
        _, span = batch.only_span()
        self._producer(batch).connect({} if self._reuse else self.settings.batching(span.end - span.start))
        letters, rows = apart(batch.rows)
        if self._records is arrow_records:
            rows = read_ahead(rows)
        elif letters is not None:
            rows = list(rows)  # the client's messages
        return Apart(batch.only_span(), letters, rows)

    def _send(self, client: Client, rows: Apart) -> Landed:
        sending = Sending(client, self.settings, rows.span)
        with telling():
            dead = sending.send(letter_records(rows.letters, self.settings.letters), [self.settings.letters])
            return Landed(sending.send(self._records(rows.rows), self.settings.topics), dead)

    def _move(self, client: Client, batch: Batch[Any]) -> None:
        partition, span = batch.only_span()
        fence.require_start(held := self._held(batch), batch)
        moved = offset_of(partition, replace(held[partition], position=span.end))
        with telling():
            client.send_offsets([moved], self._group(batch.tenure.pipeline).metadata)


class KafkaTransaction:
    """Records and the source's position, read together or not at all."""

    def __init__(self, store: KafkaStore, client: Client, rows: Apart) -> None:
        self._store = store
        self._client = client
        self._rows = rows

    def write(self, _batch: Batch[Any]) -> Landed:
        """The batch for which it was opened: its rows are at hand."""
        return self._store._send(self._client, self._rows)

    def advance(self, batch: Batch[Any]) -> None:
        self._store._move(self._client, batch)
