"""How long the page takes to answer, with many topics, and how little it asks the cluster for many browsers.

A server as a person starts it, over a stack of its own with 200 topics of ten partitions each.

    overview_over_limit        the slowest of the overview's answers over 300 ms: below 1 is sooner
    topics_over_limit          the same of the list of topics
    browsers_50_over_1         requests that reach the brokers while 50 live pages are open, over those of one

    python bench/web.py [--quick] [--format json] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.support.comparing import note, show

from fencepost.local import Stack

LIMIT = 0.3  # seconds
PARTITIONS = 10
LOOK_SECONDS = 12.0


@contextmanager
def served(stack: Stack, folder: Path) -> Iterator[httpx.Client]:
    command = [sys.executable, "-m", "fencepost", "web", "--port", "0", "--format", "json"]
    words = [*command, "--bootstrap-server", stack.bootstrap_servers]
    environment = {**os.environ, "FENCEPOST_CACHE": str(folder), "FENCEPOST_WEB_DSN": stack.dsn}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
                yield client
        finally:
            process.terminate()
            process.wait(20)


def filled(stack: Stack, topics: int) -> None:
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
    new = [NewTopic(f"bench-{number:04}", PARTITIONS, 3) for number in range(topics)]
    for first in range(0, topics, 20):
        for future in admin.create_topics(new[first : first + 20], request_timeout=60).values():
            future.result(60)


def answer(client: httpx.Client, path: str) -> float:
    began = time.perf_counter()
    assert client.get(path).status_code == 200
    return time.perf_counter() - began


def slowest(client: httpx.Client, path: str, rounds: int) -> float:
    """Pauses are longer than an answer stays, so that each asks the cluster."""
    times = []
    for _ in range(rounds):
        time.sleep(2.2)
        times.append(answer(client, path))
    note(f"{path}: median {statistics.median(times) * 1000:.0f} ms, slowest {max(times) * 1000:.0f} ms")
    return max(times)


def asked(client: httpx.Client, browsers: int) -> float:
    """Questions a second to the cluster while so many live pages are open."""
    with ExitStack() as open_, ThreadPoolExecutor(browsers) as pool:
        streams = [open_.enter_context(httpx.Client(base_url=client.base_url, timeout=60)) for _ in range(browsers)]
        watching = [pool.submit(watch, one) for one in streams]
        time.sleep(1)
        before = client.get("/api/health").json()["questions"]
        time.sleep(LOOK_SECONDS)
        rate = (client.get("/api/health").json()["questions"] - before) / LOOK_SECONDS
        for one in watching:
            one.result()
    note(f"{browsers} browsers: {rate:.2f} questions a second")
    return float(rate)


def watch(client: httpx.Client) -> None:
    deadline = time.monotonic() + LOOK_SECONDS + 2
    with client.stream("GET", "/live/") as stream:
        for _ in stream.iter_lines():
            if time.monotonic() > deadline:
                return


def measure(topics: int, rounds: int) -> dict[str, Any]:
    with Stack.temporary() as stack, TemporaryDirectory() as folder:
        filled(stack, topics)
        with served(stack, Path(folder)) as client:
            first = answer(client, "/")
            note(f"the first overview: {first * 1000:.0f} ms")
            time.sleep(3)
            overview = slowest(client, "/", rounds)
            listed = slowest(client, "/topics", rounds)
            one, many = asked(client, 1), asked(client, 50)
    ratios = {
        "overview_over_limit": round(overview / LIMIT, 3),
        "topics_over_limit": round(listed / LIMIT, 3),
        "browsers_50_over_1": round(many / one, 2),
    }
    return {"topics": topics, "partitions": topics * PARTITIONS, "ratios": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="50 topics and three rounds")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    show(measure(50 if options.quick else 200, 3 if options.quick else options.rounds), options.format)


if __name__ == "__main__":
    main()
