"""The same topic into the same PostgreSQL: ours with both engines, quixstreams, bytewax, faust and a plain loop.

Each as its own documentation shows it, appending, in a process of its own. Throughput is measured twice: of the whole
run, from the start of the process, and steady, from the first row that is seen to the last. Then latency, from the
acknowledgement of an event to its row, one at a time. Then each is killed (SIGKILL) in the middle and started again:
rows lost and doubled.

The others are no dependencies of this project: `pip install "quixstreams[postgresql]" bytewax faust-streaming
"psycopg[binary]"`, here or in an environment of its own that --python names. Whoever is not there is left out.

    <one>_whole, <one>_steady   its time over that of our python engine: more than 1 means that ours is faster
    <one>_latency               its p50 over ours

    python bench/peers.py [--quick] [--format json] [--records N] [--rounds N] [--python PATH] [--without-spark]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.latency import Probe, end
from bench.support.comparing import arguments, filled, interleaved, note, ratio, show
from bench.support.peer_programs import PROGRAMS

from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack

OURS = "fencepost python"
LOOK_SECONDS = 0.1  # between two looks at the table
STILL_SECONDS = 15.0  # without a row more: nothing more will come
LOSE_AFTER = 0.3  # of the rows are there: then it is killed
EVENTS = 50  # whose latency is measured


@dataclass
class Peer:
    """One contender with a table of its own, started as often as one likes."""

    stack: Stack
    one: str
    python: str
    folder: Path
    topic: str
    name: str = field(default_factory=lambda: f"peer_{uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        with self.database() as database:
            database.execute(f"CREATE TABLE {self.name} (id bigint, body text)")

    @property
    def kafka(self) -> dict[str, str]:
        return {"bootstrap.servers": self.stack.bootstrap_servers}

    @contextmanager
    def database(self) -> Iterator[psycopg.Connection[Any]]:
        with closing(psycopg.connect(self.stack.dsn, autocommit=True)) as database:
            yield database

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        program, _ = PROGRAMS[self.one]
        ours = self.one.startswith("fencepost")
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable if ours else self.python, "-c", program, json.dumps(self._given())],
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
                cwd=self.folder,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        try:
            yield self._process
        finally:
            end(self._process)

    @property
    def _said(self) -> Path:
        return self.folder / f"{self.name}.log"

    def _require_alive(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.one} ended by itself: {self._said.read_text(errors='replace')[-2000:]}")

    def _given(self) -> dict[str, Any]:
        with self.database() as open_:  # the password may be in a file
            place = {name: getattr(open_.info, name) for name in ("host", "port", "dbname", "user", "password")}
        return {
            "kafka": self.kafka,
            "topic": self.topic,
            "name": self.name,
            "table": self.name,
            "folder": str(self.folder / self.name),
            "dsn": self.stack.dsn,
            "database": place,
            "spec": self._spec(),
        }

    def _spec(self) -> dict[str, Any]:
        engine = self.one.removeprefix("fencepost ")
        options = {"dsn": self.stack.dsn, "table": self.name, "provenance": False}
        spark = {"spark": {"spark.master": "local[2]"}, "batch": {"every": "0s"}} if engine == "spark" else {}
        return {
            "name": self.name,
            "guarantee": "exactly-once",
            "engine": engine,
            "kafka": self.kafka,
            "source": {"topic": self.topic, "value": "json", "schema": "id long, body string"},
            "sink": {"format": "postgres", "options": options},
            **spark,
        }

    def rows(self) -> int:
        with self.database() as database:
            (found,) = database.execute(f"SELECT pg_catalog.count(*) FROM {self.name}").fetchone() or (0,)
            return int(found)

    def until(self, rows: int) -> tuple[float, float]:
        """When the first row was seen, and when so many were, or the last of fewer."""
        first = last = 0.0
        seen, deadline = 0, time.perf_counter() + 120
        while seen < rows and time.perf_counter() < deadline:
            time.sleep(LOOK_SECONDS)
            self._require_alive()
            now, found = time.perf_counter(), self.rows()
            if found > seen:
                first, last, seen = first or now, now, found
                deadline = now + STILL_SECONDS
        return first, last


@dataclass
class Bench:
    """One stack and one topic for everybody."""

    stack: Stack
    python: str
    folder: Path
    topic: str
    records: int
    steady: dict[str, list[float]] = field(default_factory=dict)

    def peer(self, one: str, topic: str = "") -> Peer:
        return Peer(self.stack, one, self.python, self.folder, topic or self.topic)

    def whole(self, one: str) -> float:
        """Seconds from the start of the process; those from the first row on are kept beside."""
        peer, begin = self.peer(one), time.perf_counter()
        with peer.running():
            first, last = peer.until(self.records)
        assert peer.rows() >= self.records, f"{one}: {peer.rows()} rows of {self.records}"
        self.steady.setdefault(one, []).append(last - first)
        return last - begin

    def latency(self, one: str) -> dict[str, float]:
        """Milliseconds, of a run that is idle."""
        topic = f"bench-{uuid4().hex[:8]}"
        peer = self.peer(one, topic)
        with Cluster(peer.kafka) as cluster:
            create_topic(cluster, TopicRequest(topic, 4))
        with peer.running(), closing(Probe(peer, topic)) as probe:
            probe.wait_until_ready(5)
            found = [probe.one() for _ in range(EVENTS if one != "quixstreams" else 5)]
        return {"p50": round(statistics.median(found), 1), "p90": round(sorted(found)[int(0.9 * len(found))], 1)}

    def killed(self, one: str) -> dict[str, int]:
        """Rows lost and doubled after a SIGKILL in the middle."""
        peer = self.peer(one)
        with peer.running() as process:
            peer.until(int(LOSE_AFTER * self.records))
            process.kill()
            process.wait()
        with peer.running():
            self._drained(peer)
        with peer.database() as database:
            query = f"SELECT pg_catalog.count(*), pg_catalog.count(DISTINCT id) FROM {peer.name}"
            rows, distinct = database.execute(query).fetchone() or (0, 0)
        return {"lost": self.records - distinct, "doubled": rows - distinct}

    def _drained(self, peer: Peer) -> None:
        """Until every id is there, and nothing more comes: of whoever repeats, the copies may be the last."""
        peer.until(10 * self.records)


def installed(one: str, python: str) -> bool:
    _, module = PROGRAMS[one]
    interpreter = sys.executable if one.startswith("fencepost") else python
    return subprocess.run([interpreter, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def compare(bench: Bench, names: list[str], rounds: int) -> dict[str, Any]:
    whole = interleaved({one: partial(bench.whole, one) for one in names}, rounds)
    steady = {one: found[1:] for one, found in bench.steady.items()}
    latencies, killed = {}, {}
    for one in names:
        latencies[one], killed[one] = bench.latency(one), bench.killed(one)
        note(f"{one}: {latencies[one]} ms, after a kill {killed[one]}")
    others = [one for one in names if one != OURS]
    ratios = {f"{one}_whole": ratio(whole, one, OURS) for one in others}
    ratios |= {f"{one}_steady": ratio(steady, one, OURS) for one in others}
    ratios |= {f"{one}_latency": round(latencies[one]["p50"] / latencies[OURS]["p50"], 2) for one in others}
    seconds = {one: {"whole": _usual(whole[one]), "steady": _usual(steady[one])} for one in names}
    return {"ratios": ratios, "seconds": seconds, "latency_ms": latencies, "after_a_kill": killed}


def _usual(values: list[float]) -> float:
    return round(statistics.median(values), 2)


def main() -> None:
    parser = arguments(__doc__, "50,000 records, one round", records=300_000)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the others")
    parser.add_argument("--without-spark", action="store_true")
    given = parser.parse_args()
    records, rounds = (50_000, 1) if given.quick else (given.records, given.rounds)
    names = [one for one in PROGRAMS if not (given.without_spark and one.endswith("spark"))]
    there = [one for one in names if installed(one, given.python)]
    for one in set(names) - set(there):
        note(f"{one} is not installed: left out")
    with Stack.temporary() as stack, TemporaryDirectory() as folder:
        bench = Bench(stack, given.python, Path(folder), filled(stack, records), records)
        result = {"records": records, "rounds": rounds, **compare(bench, there, rounds)}
    show(result, given.format)
    for one in there if given.format == "text" else ():
        after = result["after_a_kill"][one]
        print(
            f"{one:20} {result['seconds'][one]['whole']:>7} s, steady {result['seconds'][one]['steady']:>7} s, p50 "
            f"{result['latency_ms'][one]['p50']:>8} ms, lost {after['lost']}, doubled {after['doubled']}"
        )


if __name__ == "__main__":
    main()
