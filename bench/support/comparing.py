"""Contenders in interleaved rounds, ratios of one run, and how a benchmark is called and tells its result."""

from __future__ import annotations

import json
import statistics
import sys
import threading
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import psutil

from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack
from fencepost.producing.sending import Event, send

PARTITIONS = 4  # of a topic that is read
LARGEST = 1 << 20  # bytes of a record that brokers take
Times = dict[str, list[float]]


def arguments(doc: str | None, quick: str, records: int = 1_000_000, *, memory: bool = False) -> ArgumentParser:
    """Those that every benchmark of records has. `quick`: what --quick means."""
    parser = ArgumentParser(description=doc, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--records", type=int, default=records)
    parser.add_argument("--rounds", type=int, default=5)
    if memory:
        parser.add_argument("--memory", action="store_true", help="also the peak memory at five times as many records")
    return parser


def show(result: Mapping[str, Any], form: str) -> None:
    """The result as one JSON object, or its ratios line by line."""
    if form == "json":
        print(json.dumps(result))
    else:
        for name, ratio in result["ratios"].items():
            print(f"{name:40} {ratio}")
    sys.stdout.flush()


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def interleaved(contenders: Mapping[str, Callable[[], float]], rounds: int, unit: str = "{:.2f} s") -> Times:
    """What each gave in each round, in an order that rotates. A round before them warms up, and is not counted."""
    found: Times = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            found[name].append(contenders[name]())
        told = ", ".join(f"{name} {unit.format(found[name][-1])}" for name in names)
        note(f"round {number} of {rounds}: {told}" if number else f"warm-up: {told}")
    return {name: values[1:] for name, values in found.items()}


def ratio(found: Times, one: str, other: str) -> float:
    """The median over the rounds of (one / other)."""
    return round(statistics.median(a / b for a, b in zip(found[one], found[other], strict=True)), 3)


def against(found: Times, ours: str) -> dict[str, float]:
    """The other ones' times over ours: more than 1 means that ours is faster."""
    return {name: ratio(found, name, ours) for name in found if name != ours}


def usual(times: list[float]) -> float:
    """The median of a run's batches; the first one, which opens everything, is left out where there are others."""
    return statistics.median(times[1:] or times)


def filled(stack: Stack, records: int, partitions: int = PARTITIONS, size: int = 120, topic: str = "") -> str:
    """A topic with so many records of about that many bytes, and their keys; a new one, or so many more of them."""
    kafka = {"bootstrap.servers": stack.bootstrap_servers, "message.max.bytes": str(LARGEST)}
    if not topic:
        topic = f"bench-{uuid4().hex[:8]}"
        with Cluster(kafka) as cluster:
            create_topic(cluster, TopicRequest(topic, partitions))
    body = "x" * (size - 20)
    events = (
        Event(f'{{"id": {number}, "body": "{body}"}}'.encode(), key=str(number).encode(), partition=number % partitions)
        for number in range(records)
    )
    sent = send(kafka, topic, events)
    assert sent.all_acked, sent
    return topic


class PeakMemory:
    """The largest resident size of driver and workers, sampled while the block runs; brokers and database left out."""

    def __init__(self, others: set[int]) -> None:
        self._others = others

    def __enter__(self) -> PeakMemory:
        self.peak, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        own = psutil.Process()
        while not self._over.wait(0.1):
            total = 0
            for process in (own, *own.children(recursive=True)):
                try:
                    if not self._others & {process.pid, *(parent.pid for parent in process.parents())}:
                        total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.peak = max(self.peak, total)


def memory_at_5x(others: set[int], once: Callable[[], object], five_times: Callable[[], object]) -> float:
    """The peak of the second over that of the first. `others`: processes that are not the job's."""
    with PeakMemory(others) as one:
        once()
    with PeakMemory(others) as five:
        five_times()
    note(f"peak {one.peak >> 20:,} MiB, at five times as many {five.peak >> 20:,} MiB")
    return round(five.peak / one.peak, 2)
