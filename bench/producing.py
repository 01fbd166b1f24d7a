"""How fast a producer is under each word, beside a bare confluent-kafka loop and Kafka's own ProducerPerformance.

Ratios are medians over interleaved rounds of one run; 1 is as fast as what it is compared with.

    ours_over_bare              at-least-once against a bare loop with the same settings and headers
    headers                     that bare loop against one without headers
    idempotent, leader, nobody  against acks=all
    transactional_<n>           n records in a transaction, against acks=all
    journal                     with a journal against without
    handles                     one handle for each event against none
    kafka_tool                  ProducerPerformance with acks=all, from its own figure
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter, sleep
from typing import Any
from uuid import uuid4
from zlib import crc32

from confluent_kafka import KafkaError, Message
from confluent_kafka import Producer as Driver

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.support.comparing import arguments, interleaved, note, ratio, show

from fencepost import Producer
from fencepost.kafka.client import Cluster
from fencepost.kafka.config.producer import Declaration
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack
from fencepost.machine import jars, java
from fencepost.producing.batches import Limits
from fencepost.producing.events import Event
from fencepost.producing.source_producer import SourceProducer

PARTITIONS = 3
CHUNK = Limits().chunk
TRANSACTIONS = (1_000, 10_000, Limits().records)
LATENCY_RATE = 2_000  # records a second while latencies are measured: far below what saturates the machine
WORDS = {
    "acks 0": ("at-most-once", None),
    "acks 1": ("at-least-once", "leader"),
    "acks all": ("at-least-once", "quorum"),
    "idempotent": ("exactly-once", None),
}


@dataclass
class Bench:
    """One stack, one topic, the same records for everybody."""

    kafka: dict[str, str]
    topic: str
    events: Sequence[Event]
    folder: Path

    # -- the contenders: seconds from the first record to the last acknowledgement, connections made before

    def ours(self, word: str, journal: bool = False) -> float:
        guarantee, acks = WORDS[word]
        path = self.folder / uuid4().hex if journal else None
        quick: dict[str, Any] = {"delivery_reports": False, "journal": path}
        with SourceProducer(self.topic, guarantee, self.kafka, acks=acks, **quick) as producer:
            producer.send_all([Event(b"warm")])
            producer.flush()
            begin = perf_counter()
            for chunk in self._chunks(CHUNK):
                producer.send_all(chunk)
            totals = producer.flush()
            took = perf_counter() - begin
        assert totals.sent == len(self.events) + 1
        assert word == "acks 0" or totals.all_acked, totals
        return took

    def handles(self) -> float:
        with Producer(self.topic, "at-least-once", self.kafka) as producer:
            producer.send(b"warm")
            producer.flush()
            begin = perf_counter()
            for event in self.events:
                producer.send(event.value)
            totals = producer.flush()
            took = perf_counter() - begin
        assert totals.all_acked, totals
        return took

    def transactional(self, size: int) -> float:
        id_ = uuid4().hex
        named: dict[str, Any] = {"transactional_id": id_, "delivery_reports": False}
        with SourceProducer(self.topic, "exactly-once", self.kafka, **named) as producer:
            with producer.transaction():
                producer.send_all([Event(b"warm")])
            begin = perf_counter()
            for batch in self._chunks(size):
                with producer.transaction():
                    for at in range(0, len(batch), CHUNK):
                        producer.send_all(batch[at : at + CHUNK])
            took = perf_counter() - begin
            assert producer.totals.all_acked, producer.totals
        return took

    def bare(self, headers: bool = True) -> float:
        """What people write: a loop over produce, a look for answers now and then, a flush."""
        driver = Driver(Declaration.of("at-least-once", "quorum", None, delivery_reports=False).settings(self.kafka))
        driver.produce(self.topic, b"warm")
        driver.flush()
        begin = perf_counter()
        for number, event in enumerate(self.events, start=1):
            carried = _headers(number, event.value) if headers else []
            while True:
                try:
                    driver.produce(self.topic, event.value, headers=carried)
                    break
                except BufferError:
                    driver.poll(0.05)
            if number % 1000 == 0:
                driver.poll(0)
        driver.flush()
        took = perf_counter() - begin
        driver.close()
        return took

    def kafka_tool(self) -> float:
        """From the tool's own figure, without its start."""
        size = len(self.events[0].value or b"")
        settings = [f"{name}={value}" for name, value in self.kafka.items()]
        properties = [*settings, "acks=all", "enable.idempotence=false", "linger.ms=5", "buffer.memory=67108864"]
        records = ["--topic", self.topic, "--num-records", str(len(self.events)), "--record-size", str(size)]
        classpath = ":".join(map(str, jars.fetch("broker", "tools")))
        program = [str(java.find().executable), "-cp", classpath, "org.apache.kafka.tools.ProducerPerformance"]
        done = subprocess.run(
            [*program, *records, "--throughput", "-1", "--producer-props", *properties],
            capture_output=True,
            text=True,
            check=True,
        )
        return len(self.events) / float(re.findall(r"([\d.]+) records/sec", done.stdout)[-1])

    def _chunks(self, size: int) -> Iterator[list[Event]]:
        rest = iter(self.events)
        while chunk := list(islice(rest, size)):
            yield chunk

    # -- latencies, at a rate that saturates nothing

    def latencies(self, word: str, records: int) -> list[float]:
        """Milliseconds from the send to the acknowledgement."""
        guarantee, acks = WORDS[word]
        driver = Driver(Declaration.of(guarantee, acks, None, delivery_reports=True).settings(self.kafka))
        found: list[float] = []

        def answered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            found.append(1000 * (message.latency() or 0))

        for event in _paced(self.events[:records]):
            driver.produce(self.topic, event.value, on_delivery=answered)
            driver.poll(0)
        driver.flush()
        driver.close()
        return found[len(found) // 10 :]  # without the first connections

    def transaction_latencies(self, size: int, transactions: int) -> list[float]:
        """Milliseconds from a transaction's begin to the end of its commit."""
        found = []
        id_ = uuid4().hex
        named: dict[str, Any] = {"transactional_id": id_, "delivery_reports": False}
        with SourceProducer(self.topic, "exactly-once", self.kafka, **named) as producer:
            for _ in range(transactions + 1):
                begin = perf_counter()
                with producer.transaction():
                    for at in range(0, size, CHUNK):
                        producer.send_all(self.events[at : min(at + CHUNK, size)])
                found.append(1000 * (perf_counter() - begin))
        return found[1:]


def _headers(number: int, value: bytes | None) -> list[tuple[str, bytes | str | None]]:
    return [("fencepost.id", b"0123456789abcdef:%d" % number), ("fencepost.crc32", b"%08x" % crc32(value or b""))]


def _paced(events: Sequence[Event]) -> Iterator[Event]:
    begin = perf_counter()
    for number, event in enumerate(events):
        while (left := begin + number / LATENCY_RATE - perf_counter()) > 0:
            sleep(left)
        yield event


def compare(bench: Bench, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Ratios of speed, and records a second."""
    contenders: dict[str, Callable[[], float]] = {word: (lambda word=word: bench.ours(word)) for word in WORDS}  # type: ignore[misc]
    for size in TRANSACTIONS:
        contenders[f"transactional_{size}"] = lambda size=size: bench.transactional(size)  # type: ignore[misc]
    contenders |= {
        "journal": lambda: bench.ours("acks all", journal=True),
        "handles": bench.handles,
        "bare": bench.bare,
        "bare_without_headers": lambda: bench.bare(headers=False),
        "kafka_tool": bench.kafka_tool,
    }
    times = interleaved(contenders, rounds)
    over = {name: ("acks all", name) for name in contenders if name not in ("acks all", "bare", "bare_without_headers")}
    over |= {"ours_over_bare": ("bare", "acks all"), "headers": ("bare_without_headers", "bare")}
    ratios = {name: ratio(times, one, other) for name, (one, other) in over.items()}
    return ratios, {name: round(len(bench.events) / statistics.median(found)) for name, found in times.items()}


def latency_table(bench: Bench, records: int) -> dict[str, tuple[float, float]]:
    """p50 and p99 in milliseconds."""
    found = {word: bench.latencies(word, records) for word in WORDS}
    for size in TRANSACTIONS:
        if size <= len(bench.events):  # else there are not enough of them
            found[f"transactional_{size}"] = bench.transaction_latencies(size, 10 if size < 100_000 else 3)
    return {name: (round(statistics.median(each), 1), round(_p99(each), 1)) for name, each in found.items()}


def _p99(values: list[float]) -> float:
    return sorted(values)[min(int(len(values) * 0.99), len(values) - 1)]


@contextmanager
def opened(records: int, size: int) -> Iterator[Bench]:
    with Stack.temporary() as stack, tempfile.TemporaryDirectory() as folder:
        kafka = {"bootstrap.servers": stack.bootstrap_servers}
        topic = f"bench-{uuid4().hex[:8]}"
        create_topic(Cluster(kafka), TopicRequest(topic, PARTITIONS, config={"retention.bytes": str(256 * 1024**2)}))
        yield Bench(kafka, topic, [Event(b"x" * size)] * records, Path(folder))


def main() -> None:
    parser = arguments(__doc__, "20,000 records, two rounds", records=400_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a record's value")
    given = parser.parse_args()
    records, rounds = (20_000, 2) if given.quick else (given.records, given.rounds)
    with opened(records, given.size) as bench:
        note(f"{records:,} records of {given.size} bytes in {PARTITIONS} partitions, three replicas each")
        ratios, speeds = compare(bench, rounds)
        result: dict[str, Any] = {"records": records, "rounds": rounds, "ratios": ratios, "records_per_second": speeds}
        result["latency_ms"] = latency_table(bench, min(records, 10_000))
    show(result, given.format)
    for name, speed in result["records_per_second"].items() if given.format == "text" else ():
        p50, p99 = result["latency_ms"].get(name, (None, None))
        print(f"{name:24} {speed:>9,} records/s" + (f"   p50 {p50} ms, p99 {p99} ms" if p50 else ""))


if __name__ == "__main__":
    main()
