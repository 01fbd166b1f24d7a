"""One run of a pipeline until it has drained, in a process of its own: how long its batches take, and what it holds.

python -m bench.support.measured '{"name": ...}'
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil
from psycopg.conninfo import conninfo_to_dict

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench.support.comparing import usual

from fencepost.delivery import nobody
from fencepost.engines.listener import BatchDone, News, Started
from fencepost.machine.footprint import keep_small
from fencepost.model import Batch, Step, TopicPartition
from fencepost.run.pipeline import Pipeline

SAMPLE_SECONDS = 0.1


@dataclass(frozen=True)
class Run:
    """What a run took and held."""

    rows: int
    seconds: float  # from when it owns its positions to the last batch that landed
    batches: int
    batch_ms: float  # the median; of the python engine a batch is of one partition
    began: float  # on a clock that all processes share
    threads: int = 0  # of all its processes
    connections: int = 0  # to PostgreSQL
    memory: int = 0  # resident bytes, of all its processes


@dataclass
class Marks:
    """What is heard and seen, while it runs."""

    began: float = 0.0
    landed: list[float] = field(default_factory=list)
    _open: dict[TopicPartition, float] = field(default_factory=dict)
    _took: list[float] = field(default_factory=list)

    def hear(self, news: News) -> None:
        if isinstance(news, Started):
            self.began = self.began or perf_counter()
        elif isinstance(news, BatchDone):
            self.landed.append(perf_counter())

    def see(self, step: Step, batch: Batch[Any]) -> None:
        """Where batches run in this process."""
        place, _ = batch.only_span()
        if step is Step.STARTED:
            self._open[place] = perf_counter()
        elif step is Step.DELIVERED:
            self._took.append(perf_counter() - self._open.pop(place))

    def run(self, rows: int) -> Run:
        took = self._took or [after - before for before, after in pairwise([self.began, *self.landed])]
        return Run(rows, self.landed[-1] - self.began, len(self.landed), 1000 * usual(took), self.began)


def measure(spec: Mapping[str, Any]) -> Run:
    """Raises CalledProcessError where the run fails."""
    with started(spec) as one:
        return one.result()


@contextmanager
def started(spec: Mapping[str, Any]) -> Iterator[Measured]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.support.measured", json.dumps(spec)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Measured(process, int(conninfo_to_dict(spec["sink"]["options"]["dsn"])["port"] or 5432))
    finally:
        process.kill()
        process.wait()


class Measured:
    """A run as a process, looked at from outside."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self._port = port
        self._most = {"threads": 0, "connections": 0, "memory": 0}
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    def result(self) -> Run:
        told, said = self._process.communicate()
        self._watching.join()
        if self._process.returncode:
            raise subprocess.CalledProcessError(self._process.returncode, self._process.args, told, said)
        return Run(**json.loads(told.splitlines()[-1]) | self._most)

    def _watch(self) -> None:
        own = psutil.Process(self._process.pid)
        while self._process.poll() is None:
            with suppress(psutil.Error):
                for name, value in self._held([own, *own.children(recursive=True)]).items():
                    self._most[name] = max(self._most[name], value)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(SAMPLE_SECONDS)

    def _held(self, processes: list[psutil.Process]) -> dict[str, int]:
        open_ = [one for process in processes for one in process.net_connections("tcp") if one.raddr]
        return {
            "threads": sum(process.num_threads() for process in processes),
            "connections": sum(one.raddr.port == self._port for one in open_),
            "memory": sum(process.memory_info().rss for process in processes),
        }


def main() -> None:
    spec = json.loads(sys.argv[1])
    marks = Marks()
    if spec["engine"] == "python":
        keep_small()  # as `fencepost run` does
    rows = Pipeline(spec, marks.hear, marks.see if spec["engine"] == "python" else nobody).run(once=True).rows
    found = marks.run(rows)
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
