"""Event to row: how long after its acknowledgement an event is visible in PostgreSQL, beside what one would write.

Each contender runs as a process of its own that has drained and waits; events come one by one, and a row is seen by a
reader that asks all the time. Rounds are interleaved. Ratios are of time: less than 1 is sooner than the other.

    python_over_plain_idle     engine: python, exactly once, against poll, INSERT, COMMIT and the offset, in a loop
    spark_over_jdbc_idle       engine: spark, batch.every 0s, exactly once, against foreachBatch with JDBC, untriggered
    ..._at_100, ..._at_2000    the same with so many events a second

    python bench/latency.py [--quick] [--format json] [--rounds N] [--without-spark]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from uuid import uuid4

import psycopg
from confluent_kafka import KafkaError, Message, Producer

from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack

PARTITIONS = 4
READY_SECONDS, LAND_SECONDS = 120.0, 60.0
IDLE = 0  # one at a time, when the one before has landed
OURS = """
import json, sys
from fencepost.run.pipeline import Pipeline
Pipeline(json.loads(sys.argv[1])).run()
"""
PLAIN = """
import json, sys, psycopg
from confluent_kafka import Consumer
given = json.loads(sys.argv[1])
consumer = Consumer({**given["kafka"], "group.id": given["name"], "auto.offset.reset": "earliest",
                     "enable.auto.commit": False, "isolation.level": "read_committed"})
consumer.subscribe([given["topic"]])
with psycopg.connect(given["dsn"]) as database:
    while True:
        message = consumer.poll(1.0)
        if message is None or message.error():
            continue
        database.execute(f"INSERT INTO {given['table']} (id) VALUES (%s)", (json.loads(message.value())["id"],))
        database.commit()
        consumer.commit(message=message, asynchronous=False)
"""
JDBC = """
import json, sys
from fencepost.engines.spark.session import open_session
from fencepost.sinks.postgres.jdbc import jdbc
given = json.loads(sys.argv[1])
url, properties = jdbc(given["dsn"])
def write(frame, _number):
    frame.write.jdbc(url, given["table"], mode="append", properties=properties)
with open_session(given["name"], {"spark.master": "local[2]"}) as spark:
    events = (spark.readStream.format("kafka").option("kafka.bootstrap.servers", given["kafka"]["bootstrap.servers"])
              .option("subscribe", given["topic"]).option("startingOffsets", "earliest").load()
              .selectExpr("from_json(cast(value AS string), 'id long').id AS id"))
    events.writeStream.foreachBatch(write).option("checkpointLocation", given["folder"]).start().awaitTermination()
"""


@dataclass
class Contender:
    """A process that carries a topic into a table, until it is stopped."""

    stack: Stack
    engine: str
    folder: Path
    name: str = field(default_factory=lambda: f"bench_{uuid4().hex[:8]}")

    @property
    def kafka(self) -> dict[str, str]:
        return {"bootstrap.servers": self.stack.bootstrap_servers}

    @contextmanager
    def running(self) -> Iterator[None]:
        create_topic(Cluster(self.kafka), TopicRequest(self.name, PARTITIONS))
        with closing(psycopg.connect(self.stack.dsn, autocommit=True)) as database:
            database.execute(f"CREATE TABLE {self.name} (id bigint)")
        script, given = self._script()
        process = subprocess.Popen(
            [sys.executable, "-c", script, json.dumps(given)],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            end(process)

    def _script(self) -> tuple[str, dict[str, Any]]:
        if self.engine in ("plain", "jdbc"):
            given = {"name": self.name, "kafka": self.kafka, "topic": self.name, "dsn": self.stack.dsn}
            return PLAIN if self.engine == "plain" else JDBC, {
                **given,
                "table": self.name,
                "folder": str(self.folder / self.name),
            }
        spark = {"spark": {"spark.master": "local[2]"}, "batch": {"every": "0s"}} if self.engine == "spark" else {}
        return OURS, {
            "name": self.name,
            "guarantee": "exactly-once",
            "engine": self.engine,
            "kafka": self.kafka,
            "source": {"topic": self.name, "value": "json", "schema": "id long"},
            "sink": {
                "format": "postgres",
                "options": {"dsn": self.stack.dsn, "table": self.name, "provenance": False},
            },
            **spark,
        }


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Carries(Protocol):
    """Whoever carries a topic into the table of that name."""

    stack: Stack
    name: str

    @property
    def kafka(self) -> dict[str, str]: ...


class Probe:
    """Sends events and sees them land."""

    def __init__(self, contender: Carries, topic: str = "") -> None:
        """`topic`: where it is not named as the table is."""
        self._table, self._topic = contender.name, topic or contender.name
        self._producer = Producer({**contender.kafka, "linger.ms": 0})
        self._database = psycopg.connect(contender.stack.dsn, autocommit=True)
        self._acked: dict[int, float] = {}
        self._next = 0

    def wait_until_ready(self, events: int = 20) -> None:
        """Its first events have landed, and a few more, so that it is warm."""
        for _ in range(events):
            self.one(READY_SECONDS)

    def one(self, seconds: float = LAND_SECONDS) -> float:
        """An event by itself: milliseconds from its acknowledgement until its row is seen."""
        number = self._send()
        self._producer.flush()
        acked, deadline = self._acked[number], time.monotonic() + seconds
        while not self._seen(number):
            if time.monotonic() > deadline:
                raise TimeoutError(f"event {number} did not land in {self._table}")
        return (time.perf_counter() - acked) * 1000

    def many(self, rate: int, seconds: float) -> list[float]:
        """Events at that rate; each one's time, as far as the reader's own round trips let it see."""
        first, began, total = self._next, time.perf_counter(), int(rate * seconds)
        found: dict[int, float] = {}
        oldest = first  # that has not been seen
        while len(found) < total:
            due = min(total, int((time.perf_counter() - began) * rate) + 1)
            while self._next - first < due:
                self._send()
            self._producer.poll(0)
            rows = self._database.execute(f"SELECT id FROM {self._table} WHERE id >= %s", (oldest,)).fetchall()
            now = time.perf_counter()
            for (number,) in rows:
                if number not in found and number in self._acked:
                    found[number] = (now - self._acked[number]) * 1000
            while oldest in found:
                oldest += 1
            if now - began > seconds + LAND_SECONDS:
                raise TimeoutError(f"{total - len(found)} events did not land in {self._table}")
        return list(found.values())

    def close(self) -> None:
        self._database.close()

    def _send(self) -> int:
        number, self._next = self._next, self._next + 1
        self._producer.produce(
            self._topic,
            json.dumps({"id": number, "body": ""}).encode(),
            partition=number % PARTITIONS,
            on_delivery=partial(self._heard, number),
        )
        return number

    def _heard(self, number: int, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self._acked[number] = time.perf_counter()

    def _seen(self, number: int) -> bool:
        found = self._database.execute(f"SELECT 1 FROM {self._table} WHERE id = %s", (number,))
        return found.fetchone() is not None


def measure(
    probes: dict[str, Probe], rounds: int, events: int, rates: tuple[int, ...], seconds: float
) -> dict[str, Any]:
    """Milliseconds, by contender and rate."""
    found: dict[str, dict[int, list[float]]] = {name: {IDLE: [], **{rate: [] for rate in rates}} for name in probes}
    for number in range(rounds):
        order = list(probes)[number % len(probes) :] + list(probes)[: number % len(probes)]
        for name in order:
            for _ in range(events):
                time.sleep(random.uniform(0.02, 0.12))  # noqa: S311 (the next event comes at no special moment)
                found[name][IDLE].append(probes[name].one())
            for rate in rates:
                found[name][rate] += probes[name].many(rate, seconds)
            note(f"round {number + 1} of {rounds}: {name} {_told(found[name])}")
    return found


def _told(found: dict[int, list[float]]) -> str:
    return ", ".join(
        f"{_word(rate)} p50 {_at(values, 50):.1f} p90 {_at(values, 90):.1f} p99 {_at(values, 99):.1f} ms"
        for rate, values in found.items()
    )


def _word(rate: int) -> str:
    return "idle" if rate == IDLE else f"at_{rate}"


def _at(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _ratios(found: dict[str, dict[int, list[float]]]) -> dict[str, float]:
    pairs = [pair for pair in (("python", "plain"), ("spark", "jdbc")) if pair[0] in found]
    return {
        f"{ours}_over_{theirs}_{_word(rate)}": round(_at(values, 50) / _at(found[theirs][rate], 50), 3)
        for ours, theirs in pairs
        for rate, values in found[ours].items()
    }


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20 events, one round")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without-spark", action="store_true")
    given = parser.parse_args()
    rounds, events, rates, seconds = (1, 20, (100,), 2.0) if given.quick else (given.rounds, 40, (100, 2000), 5.0)
    engines = ["python", "plain"] + ([] if given.without_spark else ["spark", "jdbc"])
    with Stack.temporary() as stack, TemporaryDirectory() as folder, ExitStack() as opened:
        probes = {}
        for engine in engines:
            contender = Contender(stack, engine, Path(folder))
            opened.enter_context(contender.running())
            probes[engine] = opened.enter_context(closing(Probe(contender)))
        for name, probe in probes.items():
            probe.wait_until_ready()
            note(f"{name} is warm")
        found = measure(probes, rounds, events, rates, seconds)
    percentiles = {
        f"{name} {_word(rate)}": {f"p{percent}": round(_at(values, percent), 1) for percent in (50, 90, 99)}
        for name, by_rate in found.items()
        for rate, values in by_rate.items()
    }
    ratios = _ratios(found)
    if given.format == "json":
        print(json.dumps({"rounds": rounds, "ratios": ratios, "milliseconds": percentiles}))
        return
    for name, at in percentiles.items():
        print(f"{name:20} " + "  ".join(f"{word} {value:>8.1f} ms" for word, value in at.items()))
    for name, ratio in ratios.items():
        print(f"{name:40} {ratio}")


if __name__ == "__main__":
    main()
