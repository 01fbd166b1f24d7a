"""Plain-Python consumers: every commit style, exactly-once into PostgreSQL and Kafka to Kafka, beside plain loops.

Ratios are medians over interleaved rounds of one run, of speed: more than 1 is faster than what it is compared with.
Time runs from the first record in hand to the last one done: a group takes seconds to begin, whoever reads.

    into_postgres_over_naive    exactly-once into PostgreSQL against INSERT ... WHERE NOT EXISTS and commit per record
    into_postgres_over_reading  the same against reading and dropping with the same client, as it comes
    kafka_to_kafka_over_plain   exactly-once Kafka to Kafka against a plain consume-produce loop without transactions
    ..._tuned                   the same loops with fetch.queue.backoff.ms as ours: librdkafka's second makes them wait
    ..._whole                   that loop with the record's headers and time too, which ours carries always
    <guarantee> <commit> per <what>   a handler that does nothing, against reading and dropping
    peak_memory_at_5x           into PostgreSQL, five times as many records against as many (--memory)

    python bench/consuming.py [--quick] [--format json] [--records N] [--rounds N] [--memory] [--sinks]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer, Producer

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.support.comparing import PARTITIONS, arguments, filled, interleaved, note, ratio, show

from fencepost.engines.listener import BatchDone, News
from fencepost.engines.python.commits import Commit
from fencepost.engines.python.consumer import Consumption
from fencepost.engines.python.settings import ConsumerSettings, Per
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import TopicRequest, create_topic, end_offsets
from fencepost.local import Stack
from fencepost.run.consume import run_handler
from fencepost.run.pipeline import Pipeline

BATCH = 10_000
STYLES: list[tuple[str, Commit, Per | float]] = [
    ("at-most-once", Commit.SYNC, Per.BATCH),
    ("at-most-once", Commit.SYNC, Per.RECORD),
    ("at-most-once", Commit.ASYNC, Per.BATCH),
    ("at-least-once", Commit.AUTO, Per.BATCH),
    ("at-least-once", Commit.SYNC, Per.BATCH),
    ("at-least-once", Commit.SYNC, Per.RECORD),
    ("at-least-once", Commit.SYNC, 1.0),
    ("at-least-once", Commit.ASYNC, Per.BATCH),
    ("at-least-once", Commit.ASYNC, Per.RECORD),
]
SLOW = 2_000  # records for whoever takes a round trip for each
MEMORY = """
import json, re, sys
from fencepost.machine.footprint import keep_small
from fencepost.run.pipeline import Pipeline
keep_small()  # as `fencepost run` does
summary = Pipeline(json.loads(sys.argv[1])).run(once=True)
# not getrusage: what that says begins with the size of whoever started this process
print(summary.rows, re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


@dataclass
class Clock:
    """From the first start to the last stop."""

    began: float | None = None
    ended: float = 0.0

    def start(self) -> None:
        self.began = self.began or perf_counter()

    def stop(self) -> None:
        self.ended = perf_counter()

    @property
    def seconds(self) -> float:
        return self.ended - (self.began or self.ended)


@dataclass
class Bench:
    """One stack, a topic that everybody reads, and a short one for those that are slow."""

    stack: Stack
    topic: str
    short: str
    records: int
    kafka: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.kafka = {"bootstrap.servers": self.stack.bootstrap_servers}

    # -- the contenders: records per second, from the first record to the end

    def reading(self, tuned: bool = False) -> float:
        """Read and drop."""
        return self._read(self.topic, self.records, lambda _messages, _consumer: None, tuned=tuned)

    def plain_loop(self, tuned: bool = False, whole: bool = False) -> float:
        """Read and produce, as one writes it; what was sent is flushed at the end, and no position is kept."""
        target = self._target()
        producer = Producer(
            {**self.kafka, "linger.ms": 20, "batch.size": 1 << 20, "queue.buffering.max.messages": 500_000}
        )

        def produce(messages: list[Any], _consumer: Consumer) -> None:
            for message in messages:
                if whole:
                    more: dict[str, Any] = {"headers": message.headers(), "timestamp": message.timestamp()[1]}
                    producer.produce(target, message.value(), message.key(), **more)
                else:
                    producer.produce(target, message.value(), message.key())
            producer.poll(0)

        rate = self._read(self.topic, self.records, produce, producer.flush, tuned)
        assert sum(end_offsets(Cluster(self.kafka), [target]).values()) == self.records
        return rate

    def kafka_to_kafka(self) -> float:
        return self._pipeline({"format": "kafka", "options": {"topic": self._target(), "provenance": False}})

    def into_postgres(self, provenance: bool = True) -> float:
        table = self._fresh()
        options = {"dsn": self.stack.dsn, "table": table, "provenance": provenance}
        return self._pipeline({"format": "postgres", "options": options})

    def naive(self) -> float:
        """The usual recipe: one record at a time, unless its key is there, then the offset."""
        table = self._fresh()
        with closing(psycopg.connect(self.stack.dsn, autocommit=True)) as database:
            database.execute(f"CREATE TABLE {table} (id text PRIMARY KEY, body bytea)")
            insert = f"INSERT INTO {table} SELECT %s, %s WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE id = %s)"

            def store(messages: list[Any], consumer: Consumer) -> None:
                for message in messages:
                    key = f"{message.partition()}/{message.offset()}"
                    database.execute(insert, (key, message.value(), key))
                    consumer.commit(message=message, asynchronous=False)

            return self._read(self.short, SLOW, store)

    def style(self, guarantee: str, commit: Commit, per: Per | float) -> float:
        """A handler that does nothing."""
        slow = per is Per.RECORD
        settings = ConsumerSettings(
            self.kafka,
            self.short if slow else self.topic,
            f"bench-{uuid4().hex[:8]}",
            Guarantee(guarantee),
            commit,
            per,
            batch=BATCH,
        )
        clock = Clock()
        work = Consumption(settings, lambda _events: clock.start())
        return run_handler(work, once=True, listen=lambda _: clock.stop()).rows / clock.seconds

    # -- how

    def _read(
        self,
        topic: str,
        records: int,
        take: Callable[[list[Any], Consumer], None],
        end: Callable[[], object] = lambda: None,
        tuned: bool = False,
    ) -> float:
        consumer = Consumer(
            {
                **self.kafka,
                "group.id": f"bench-{uuid4().hex[:8]}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                **({"fetch.queue.backoff.ms": 10} if tuned else {}),
            }
        )
        consumer.subscribe([topic])
        clock, seen = Clock(), 0
        while seen < records:
            messages = [message for message in consumer.consume(BATCH, 0.2) if message.error() is None]
            if messages:
                clock.start()
            take(messages, consumer)
            seen += len(messages)
        end()
        clock.stop()
        consumer.close()
        return records / clock.seconds

    def _pipeline(self, sink: dict[str, Any]) -> float:
        clock = Clock()

        def hear(news: News) -> None:
            if isinstance(news, BatchDone):
                clock.stop()

        rows = Pipeline(self.declare(sink), hear, lambda _step, _batch: clock.start()).run(once=True).rows
        assert rows == self.records, rows
        return rows / clock.seconds

    def declare(self, sink: dict[str, Any]) -> dict[str, Any]:
        return {
            "name": f"bench-{uuid4().hex[:8]}",
            "guarantee": "exactly-once",
            "engine": "python",
            "kafka": self.kafka,
            "source": {"topic": self.topic},
            "sink": sink,
        }

    def _target(self) -> str:
        topic = f"bench-out-{uuid4().hex[:8]}"
        create_topic(Cluster(self.kafka), TopicRequest(topic, PARTITIONS))
        return topic

    def _fresh(self) -> str:
        with closing(psycopg.connect(self.stack.dsn, autocommit=True)) as database:
            for (old,) in database.execute(
                "SELECT tablename FROM pg_tables WHERE tablename LIKE 'bench\\_%'"
            ).fetchall():
                database.execute(f"DROP TABLE {old}")
            database.execute("CHECKPOINT")  # nobody pays for what the one before left behind
        return f"bench_{uuid4().hex[:8]}"

    def memory(self) -> int:
        """The peak resident size of a process that carries the topic into PostgreSQL, in KiB."""
        sink = {"format": "postgres", "options": {"dsn": self.stack.dsn, "table": self._fresh()}}
        argv = [sys.executable, "-c", MEMORY, json.dumps(self.declare(sink))]
        rows, peak = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
        assert int(rows) == self.records
        return int(peak)


def compare(bench: Bench, rounds: int, styles: bool) -> tuple[dict[str, float], dict[str, int]]:
    contenders: dict[str, Callable[[], float]] = {
        "reading": bench.reading,
        "reading tuned": partial(bench.reading, tuned=True),
        "into postgres": bench.into_postgres,
        "kafka to kafka": bench.kafka_to_kafka,
        "plain loop": bench.plain_loop,
        "plain loop tuned": partial(bench.plain_loop, tuned=True),
        "plain loop whole": partial(bench.plain_loop, tuned=True, whole=True),
        "naive": bench.naive,
    }
    if styles:
        contenders |= {
            f"{word} {commit} per {_per(per)}": partial(bench.style, word, commit, per) for word, commit, per in STYLES
        }
    rates = interleaved(contenders, rounds, "{:,.0f}/s")
    return _ratios(rates), {name: round(statistics.median(found)) for name, found in rates.items()}


def _ratios(rates: dict[str, list[float]]) -> dict[str, float]:
    over = partial(ratio, rates)

    return {
        "into_postgres_over_naive": over("into postgres", "naive"),
        "into_postgres_over_reading": over("into postgres", "reading"),
        "into_postgres_over_reading_tuned": over("into postgres", "reading tuned"),
        "kafka_to_kafka_over_plain": over("kafka to kafka", "plain loop"),
        "kafka_to_kafka_over_plain_tuned": over("kafka to kafka", "plain loop tuned"),
        "kafka_to_kafka_over_plain_whole": over("kafka to kafka", "plain loop whole"),
        **{name: over(name, "reading") for name in rates if " per " in name},
    }


def _per(per: Per | float) -> str:
    return per.value if isinstance(per, Per) else f"{per:g} s"


@contextmanager
def opened(records: int) -> Iterator[Bench]:
    with Stack.temporary() as stack:
        yield Bench(stack, filled(stack, records), filled(stack, SLOW), records)


def main() -> None:
    parser = arguments(__doc__, "50,000 records, two rounds", memory=True)
    parser.add_argument("--sinks", action="store_true", help="without the styles of handlers")
    given = parser.parse_args()
    records, rounds = (50_000, 2) if given.quick else (given.records, given.rounds)
    result: dict[str, Any] = {"records": records, "rounds": rounds}
    with opened(records) as bench:
        note(f"{records:,} records of about 120 bytes in {PARTITIONS} partitions")
        result["ratios"], result["records_per_second"] = compare(bench, rounds, not given.sinks)
        if given.memory:
            five = Bench(bench.stack, filled(bench.stack, 5 * records), bench.short, 5 * records)
            once, five_times = bench.memory(), five.memory()
            note(f"peak {once >> 10:,} MiB, at five times as many {five_times >> 10:,} MiB")
            result["ratios"]["peak_memory_at_5x"] = round(five_times / once, 2)
    show(result, given.format)


if __name__ == "__main__":
    main()
