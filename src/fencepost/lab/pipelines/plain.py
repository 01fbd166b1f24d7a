"""What people write today without Spark, as a control: a loop over confluent-kafka's consumer, one row at a time.

`python -m fencepost.lab.pipelines.plain WORK` drains the pipeline's topic into its target. A record that it cannot read
is logged and left out, as such loops do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import groupby
from typing import Any
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as DriverPartition
from psycopg import sql

from fencepost.errors import Unreachable
from fencepost.kafka.client import wait_until
from fencepost.kafka.errors import is_end_of_partition
from fencepost.lab.pipelines.news import NewsFile
from fencepost.lab.pipelines.work import Work
from fencepost.lab.scenario import Control
from fencepost.model import Batch, Span, Step, Tenure, TopicPartition
from fencepost.spec import PipelineSpec, load

BATCH = 50
PATIENCE = 30.0
INTERVAL_MS = 100
SELDOM = 1_000  # records
Write = Callable[[bytes], None]


class PlainLoop:
    """Reads, writes, commits, in the order that its author chose."""

    def __init__(self, spec: PipelineSpec, work: Work, write: Write) -> None:
        self._news = NewsFile(work.news)
        self._once = work.once
        self._how = work.plain or Control(guarantee=spec.guarantee)
        self._topic = spec.source.origins[0]
        self._see = work.observer(self._topic)
        self._write = write
        own = {
            "group.id": group_of_plain(spec.name),
            "auto.offset.reset": self._how.start,
            "enable.partition.eof": True,
            "enable.auto.commit": self._how.commit == "auto",
            "auto.commit.interval.ms": INTERVAL_MS,
            "max.poll.interval.ms": self._how.poll_ms,
            "partition.assignment.strategy": "cooperative-sticky",
        }
        self._consumer = Consumer({**spec.kafka, **own})
        self.rows = 0
        self._due = 0  # records since the last commit of all

    def drain(self) -> None:
        try:
            self._read()
        finally:
            self._consumer.close()

    def _read(self) -> None:
        self._consumer.subscribe([self._topic], on_assign=self._assigned)
        ended: set[int] = set()
        while not (self._once and self._at_the_end(ended)):
            messages = self._consumer.consume(BATCH, 0.2)
            for message in messages:
                if (error := message.error()) is not None:
                    self._told(error, message, ended)
            self._carry([message for message in messages if message.error() is None])
        if self._how.commit == "seldom" and self._due:
            self._commit_all()

    def _assigned(self, _consumer: Consumer, partitions: list[DriverPartition]) -> None:
        self._news.tell("started", partitions=[at.partition for at in partitions])

    def _at_the_end(self, ended: set[int]) -> bool:
        """Of everything that the group has given it."""
        assigned = {at.partition for at in self._consumer.assignment()}
        return bool(assigned) and assigned <= ended

    @staticmethod
    def _told(error: KafkaError, message: Message, ended: set[int]) -> None:
        if is_end_of_partition(error):
            ended.add(message.partition() or 0)
        elif error.fatal():
            raise Unreachable(error.str())

    def _carry(self, messages: list[Message]) -> None:
        place = lambda message: message.partition() or 0  # noqa: E731
        for number, part in groupby(sorted(messages, key=place), place):
            self._deliver(number, list(part))

    def _deliver(self, number: int, messages: list[Message]) -> None:
        span = Span(messages[0].offset() or 0, (messages[-1].offset() or 0) + 1)
        at = TopicPartition(self._topic, number)
        batch = Batch({at: span}, None, Tenure("plain", uuid4(), 0, {}))
        if self._how.commit == "auto":  # slow work: it takes longer than the interval
            wait_until(lambda: self._committed(at) >= span.end, PATIENCE)
        self._see(Step.STARTED, batch)
        if self._how.commit == "before":
            self._commit(at, span, batch)
        for message in messages:
            self._write(message.value() or b"")
        self.rows += len(messages)
        self._due += len(messages)
        self._see(Step.WRITTEN, batch)
        if self._how.commit in ("after", "async"):
            self._commit(at, span, batch)
        if self._how.commit == "seldom" and self._due >= SELDOM:
            self._commit_all()
        self._see(Step.DELIVERED, batch)

    def _commit(self, at: TopicPartition, span: Span, batch: Batch[Any]) -> None:
        waited = self._how.commit != "async"
        self._consumer.commit(offsets=[DriverPartition(*at, span.end)], asynchronous=not waited)  # type: ignore[call-overload]
        self._see(Step.ADVANCED, batch)

    def _commit_all(self) -> None:
        """What it has read of the partitions that it has now. What the group refuses, others do again."""
        self._due = 0
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            sys.stderr.write(f"not committed: {error}\n")

    def _committed(self, at: TopicPartition) -> int:
        found = self._consumer.committed([DriverPartition(*at)], PATIENCE)
        return int(found[0].offset)


def group_of_plain(pipeline: str) -> str:
    return f"plain.{pipeline}"


@contextmanager
def writing(spec: PipelineSpec) -> Iterator[Write]:
    """Into the pipeline's topic, or into its table, each row committed by itself."""
    if topics := spec.sink.options.topics_written:
        producer = Producer({**spec.kafka, "enable.idempotence": False, "acks": "all"})

        def produce(value: bytes) -> None:
            producer.produce(topics[0], value)
            producer.flush(PATIENCE)

        yield produce
        return
    options: Any = spec.sink.options
    with closing(psycopg.connect(options.dsn, autocommit=True)) as connection:
        table = sql.Identifier(options.table)
        connection.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} (id bigint)").format(table))
        statement = sql.SQL("INSERT INTO {} VALUES (%s)").format(table)

        def insert(value: bytes) -> None:
            try:
                row = int(json.loads(value)["id"])
            except (ValueError, KeyError, TypeError):
                sys.stderr.write(f"left out: {value!r}\n")
                return
            connection.execute(statement, (row,))

        yield insert


def main() -> int:
    work = Work.model_validate_json(sys.argv[1])
    spec = load(work.spec)
    with writing(spec) as write:
        loop = PlainLoop(spec, work, write)
        loop.drain()
    NewsFile(work.news).tell("ended", rows=loop.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
