"""A topic of numbered events, a group of its own, and a file that a handler writes what it did into."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from fencepost.kafka.client import Cluster, wait_until
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack
from fencepost.producing.sending import Event, send

TESTS = Path(__file__).parents[1]
PATIENCE = 60.0


@dataclass
class Group:
    """What consumers are let loose on."""

    stack: Stack
    folder: Path
    partitions: int = 2
    more: Mapping[str, str] = field(default_factory=dict)  # settings of its clients
    name: str = field(default_factory=lambda: f"consume-{uuid4().hex[:12]}")

    def __post_init__(self) -> None:
        self.kafka = {"bootstrap.servers": self.stack.bootstrap_servers, "client.id": self.name, **self.more}
        self.cluster = Cluster(self.kafka)
        self.effects = self.folder / "effects"
        create_topic(self.cluster, TopicRequest(self.name, self.partitions))

    def produce(self, numbers: Iterable[int]) -> None:
        events = (Event(str(number).encode(), partition=number % self.partitions) for number in numbers)
        assert send(self.kafka, self.name, events).all_acked

    def did(self) -> Counter[int]:
        """How often a handler had an effect, by event."""
        return Counter(map(int, self.effects.read_text().split())) if self.effects.exists() else Counter()

    def lost(self, count: int) -> int:
        return len(set(range(count)) - set(self.did()))

    def doubled(self) -> int:
        return sum(times - 1 for times in self.did().values())

    def sql(self, text: str) -> list[Any]:
        with closing(psycopg.connect(self.stack.dsn, autocommit=True)) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def process(self, **work: Any) -> Iterator[Consuming]:
        """A consumer as a process of its own; killed at the end of the block."""
        given = {"kafka": self.kafka, "topic": self.name, "group": self.name, "effects": str(self.effects), **work}
        argv = [
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            work.get("module", "consuming.consumer_process"),
            json.dumps(given),
        ]
        environment = {**os.environ, "PYTHONPATH": str(TESTS)}
        log = self.folder / f"log-{uuid4().hex[:6]}"
        with log.open("w") as errors, subprocess.Popen(argv, env=environment, stderr=errors) as child:
            consuming = Consuming(child, log)
            try:
                yield consuming
            finally:
                if child.poll() is None:
                    child.send_signal(signal.SIGCONT)
                    child.kill()
                    child.wait()


@dataclass
class Consuming:
    child: subprocess.Popen[bytes]
    log: Path

    def ended(self) -> int:
        try:
            return self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.child.send_signal(signal.SIGABRT)  # it says where it stands, in every thread
            self.child.wait(PATIENCE)
            raise AssertionError(f"it did not end: {self.log.read_text()}") from None

    def wait_until(self, condition: Any, what: str) -> None:
        reached = wait_until(lambda: bool(condition()) or self.child.poll() is not None, PATIENCE)
        assert reached, f"not in time: {what}; {self.log.read_text()}"
        assert condition(), f"the process ended before {what}; {self.log.read_text()}"

    def wake(self) -> None:
        self.child.send_signal(signal.SIGCONT)
