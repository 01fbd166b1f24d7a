"""A Spark cluster on loopback: a standalone master and two workers, each a process of its own."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fencepost.machine import process
from fencepost.machine.java import find
from spark.drivers import wait_for

SECRET = secrets.token_hex(32)


@contextmanager
def standalone(folder: Path, home: Mapping[str, str]) -> Iterator[str]:
    """The master's address, when both workers have joined. All of them ask for the secret."""
    file = folder / "cluster.properties"
    file.touch(0o600)
    file.write_text(f"spark.authenticate true\nspark.authenticate.secret {SECRET}\n")
    secured = ["--properties-file", str(file)]
    port, page = _free_port(), _free_port()
    url = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page), *secured]
    worker = ["worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "-c", "1", "-m", "1g", *secured]
    with ExitStack() as running:
        running.enter_context(_daemon(master, home, folder / "master.log"))
        wait_for(lambda: _alive_workers(page) == 0, "the master answers")
        for number in range(2):
            words = [*worker, "-d", str(folder / f"work-{number}"), url]
            running.enter_context(_daemon(words, home, folder / f"worker-{number}.log"))
        wait_for(lambda: _alive_workers(page) == 2, "both workers have joined")
        yield url


@contextmanager
def _daemon(words: Sequence[str], home: Mapping[str, str], log: Path) -> Iterator[None]:
    program, *rest = words
    jars = Path(home["SPARK_HOME"]) / "jars"
    memory = ["-Xmx384m", "-XX:+UseSerialGC"]
    argv = [str(find().executable), "-cp", f"{jars}/*", *memory, f"org.apache.spark.deploy.{program}", *rest]
    with log.open("wb") as out:
        environment = {**os.environ, **home, "SPARK_SCALA_VERSION": "2.13"}  # as Spark's own scripts set it
        child = subprocess.Popen(argv, env=environment, stdout=out, stderr=out)
    identity = process.identify(child.pid)
    try:
        yield
    finally:
        if identity is not None:
            killed = process.send_all(identity, signal.SIGKILL)  # a worker's executors too
            child.wait()
            wait_for(lambda: not any(map(process.alive, killed)), f"{program} is gone")


def _alive_workers(page: int) -> int | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except OSError:
        return None


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
