"""A flow: a topic, a pipeline and a table of the same name, with what goes in and what comes out, by id."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import psycopg
import yaml
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as DriverPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from fencepost.audit.compare import Comparison, compare_sink
from fencepost.delivery import Observer, nobody
from fencepost.engines.listener import BatchDone, News
from fencepost.errors import FencepostError
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import TopicReader
from fencepost.kafka.topic_reader import read_committed
from fencepost.kafka.topics import TopicRequest, create_topic, describe_topic, end_offsets
from fencepost.local import Stack
from fencepost.local.stack import Node
from fencepost.model import TopicPartition
from fencepost.run.pipeline import Pipeline
from fencepost.sinks.postgres.connection import short_hash, writer_name
from spark.drivers import PATIENCE, TESTS, wait_for

SCHEMA = "id long, s string"
SPARK = {
    "spark.master": "local[2]",
    "spark.executorEnv.PYTHONPATH": str(TESTS),  # workers import the faults
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}

RETRIES = {"spark.master": "local[2,4]"}  # a task that fails is tried four times, as on a cluster


@dataclass
class Run:
    """A run that ended in this process: what it told, and what it did."""

    news: list[News] = field(default_factory=list)
    rows: int = 0
    dead: int = 0

    def batches(self) -> list[BatchDone]:
        return [news for news in self.news if isinstance(news, BatchDone)]


@dataclass
class Running(Run):
    """A run that goes on in a thread, and the error that ended it."""

    failure: FencepostError | None = None

    def keep(self, pipeline: Pipeline) -> None:
        try:
            pipeline.run()
        except FencepostError as error:
            self.failure = error

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        wait_for(lambda: condition() or self.failure, what)
        assert condition(), f"the run ended before: {what}: {self.failure!r}"


@dataclass
class Flow:
    """Records are spread over the partitions by id: id 7 of two partitions goes into partition 1."""

    stack: Stack
    folder: Path
    partitions: int = 2
    name: str = field(default_factory=lambda: f"flow_{uuid4().hex[:10]}")

    def __post_init__(self) -> None:
        self.kafka = {"bootstrap.servers": self.stack.bootstrap_servers}
        self.cluster = Cluster(self.kafka)
        self.make_topic()

    # -- what goes in

    def make_topic(self) -> None:
        create_topic(self.cluster, TopicRequest(self.name, self.partitions))

    def add_partitions(self, partitions: int) -> None:
        """So that there are so many."""
        self.partitions = partitions
        request = NewPartitions(self.name, partitions)
        self.cluster.admin.create_partitions([request])[self.name].result(60)
        wait_for(lambda: len(self.ends()) == partitions, "the new partitions have leaders")

    def leader(self, partition: int) -> Node:
        """The broker that leads the partition now."""
        leader = describe_topic(self.cluster, self.name).partitions[partition].leader
        return next(node for node in self.stack.brokers.values() if node.node_id == leader)

    def partition(self, number: int) -> TopicPartition:
        return TopicPartition(self.name, number)

    def produce(
        self, ids: Iterable[int], instead: Mapping[int, bytes] | None = None, header: bytes | None = None
    ) -> None:
        """One record per id, or the bytes that are given for it instead; on return all of them are in the log."""
        producer = Producer(self.kafka | {"linger.ms": 5})
        self._send(producer, ids, instead or {}, header)

    def remove(self, ids: Iterable[int]) -> None:
        """An event without a value for each key."""
        producer = Producer(self.kafka)
        for id_ in ids:
            producer.produce(self.name, None, key=str(id_), partition=id_ % self.partitions)
        assert producer.flush(60) == 0

    def produce_in_transaction(self, ids: Iterable[int], commit: bool) -> None:
        producer = Producer(self.kafka | {"transactional.id": f"{self.name}-{commit}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        self._send(producer, ids, {})
        if commit:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)

    def _send(
        self, producer: Producer, ids: Iterable[int], instead: Mapping[int, bytes], header: bytes | None = None
    ) -> None:
        for id_ in ids:
            value = instead.get(id_, json.dumps({"id": id_, "s": str(id_)}).encode())
            headers: dict[str, str | bytes | None] = {"n": header or str(id_)}
            producer.produce(self.name, value, key=str(id_), partition=id_ % self.partitions, headers=headers)
            producer.poll(0)
        assert producer.flush(60) == 0

    # -- the pipeline

    def declare(self, **parts: Any) -> Path:
        """The pipeline's file, with these parts in place of the usual ones; options of the sink as `options`."""
        options = parts.pop("options", {})
        declared = {
            "name": self.name,
            "guarantee": "exactly-once",
            "kafka": self.kafka,
            "source": {"topic": self.name, "value": "json", "schema": SCHEMA},
            "transform": {"sql": "SELECT id, _from FROM events"},
            "sink": self.sink_part(options),
            **parts,
            "spark": SPARK | parts.get("spark", {}),
            "batch": {"small": 0} | parts.get("batch", {}),  # faults are put into tasks
        }
        path = self.folder / f"{self.name}.yml"
        path.write_text(yaml.safe_dump({key: part for key, part in declared.items() if part is not None}))
        return path

    def sink_part(self, options: dict[str, Any]) -> dict[str, Any]:
        """Where it goes, with these options."""
        return {"format": "postgres", "options": {"dsn": self.stack.dsn, "table": self.name, **options}}

    def run(self, see: Observer = nobody, **parts: Any) -> Run:
        """Declare the pipeline so and drain the topic, in this process."""
        run = Run()
        summary = Pipeline(self.declare(**parts), listen=run.news.append, see=see).run(once=True)
        run.rows, run.dead = summary.rows, summary.dead
        return run

    @contextmanager
    def running(self, see: Observer = nobody, **parts: Any) -> Iterator[Running]:
        """The pipeline in a thread of this process, going on until the block ends."""
        running = Running()
        pipeline = Pipeline(self.declare(**parts), listen=running.news.append, see=see)
        thread = Thread(target=running.keep, args=(pipeline,))
        thread.start()
        try:
            yield running
        finally:
            pipeline.stop()
            thread.join(timeout=PATIENCE)
        assert not thread.is_alive(), "the run did not stop"

    # -- what comes out

    def comparison(self) -> Comparison:
        """The committed records of the topic against the rows of the table."""
        sent = [json.loads(record.value() or b"")["id"] for record in read_committed(self.kafka, self.name)]
        return compare_sink(sent, self.landed())

    def assert_exact(self, expected: int) -> None:
        """So many records are in the topic, and each is in the table once."""
        found = self.comparison()
        assert (found.expected, found.lost, found.duplicated, found.phantom) == (expected, 0, 0, 0), found.findings[:5]

    def landed(self, column: str = "id") -> list[Any]:
        """What a reader from outside sees now; nothing where there is no table."""
        if not self.sql("SELECT to_regclass(%s)", self.name)[0][0]:
            return []
        return [value for (value,) in self.sql(f"SELECT {column} FROM {self.name}")]

    def landed_or_nothing(self) -> list[Any]:
        """The same while the database may be away."""
        try:
            return self.landed()
        except psycopg.OperationalError:
            return []

    def landed_in(self, partition: int) -> int:
        """How many rows came of this partition."""
        return Counter(id_ % self.partitions for id_ in self.landed())[partition]

    def positions(self) -> dict[int, int]:
        """The stored position of each partition; none where nothing was ever stored."""
        if not self.sql("SELECT to_regclass('fencepost.positions')")[0][0]:
            return {}
        return dict(self.sql("SELECT partition, position FROM fencepost.positions WHERE pipeline = %s", self.name))

    def stored(self) -> list[Any]:
        """Everything that is stored for the pipeline, and its rows: to see that nothing was touched."""
        ledger = self.sql(
            "SELECT topic, partition, position, owner, topic_id FROM fencepost.positions WHERE pipeline = %s "
            "ORDER BY topic, partition",
            self.name,
        )
        return [*ledger, sorted(self.landed())]

    def ends(self) -> dict[int, int]:
        return {at.partition: end for at, end in end_offsets(self.cluster, [self.name]).items()}

    def delete_before(self, partition: int, offset: int) -> None:
        """Records that are gone on return."""
        at = self.partition(partition)
        self.cluster.admin.delete_records([DriverPartition(at.topic, at.partition, offset)])
        reader = TopicReader(self.cluster, self.name)
        wait_for(lambda: reader.bounds([at])[0][at] == offset, f"{at} begins at {offset}")

    def in_mid_copy(self) -> bool:
        """Does a writer of the pipeline stand in an open transaction and in a COPY that waits for more rows?"""
        writers = self.sql(
            "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND state = 'active' "
            "AND wait_event = 'ClientRead' AND query LIKE '%%COPY%%'",
            writer_name(self.name, "fencepost"),
        )
        return bool(writers)

    def stages(self, pipeline: str | None = None) -> list[str]:
        """The tables that stages of the pipeline are made of, as long as they are there."""
        start = f"stage_{short_hash(pipeline or self.name)}_"
        found = self.sql("SELECT relname FROM pg_class WHERE starts_with(relname, %s) AND relkind = 'r'", start)
        return sorted(name for (name,) in found)

    def sql(self, text: str, *values: object) -> list[Any]:
        with closing(psycopg.connect(self.stack.dsn, autocommit=True)) as connection:
            cursor = connection.execute(text, values or None)
            return list(cursor.fetchall()) if cursor.description else []
