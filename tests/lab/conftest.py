"""A stack whose brokers tell their clients to come through proxies, and the shared PostgreSQL."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from fencepost.lab.proxy import Protocol, Proxy
from fencepost.local import Stack
from fencepost.local.ports import HOST, choose
from lab.database import Database, proxied


@dataclass(frozen=True)
class ProxiedKafka:
    """Brokers that can be reached directly, for checks, and at the ports where proxies belong."""

    bootstrap_servers: str  # DIRECT: never proxied
    doors: dict[str, tuple[int, int]]  # by broker: where it says that it is, and where it really listens

    def listen(self, proxy: Proxy) -> str:
        """Put the proxy before every broker; the servers to begin with."""
        ports = [
            proxy.listen(name, (HOST, port), Protocol.KAFKA, port=advertised)
            for name, (advertised, port) in self.doors.items()
        ]
        return ",".join(f"{HOST}:{port}" for port in ports)


@pytest.fixture(scope="package")
def kafka() -> Iterator[ProxiedKafka]:
    with tempfile.TemporaryDirectory(prefix="fencepost-lab-") as folder:
        stack = Stack(Path(folder) / "home", quick_timeouts=True)
        ports = {name: port for (name, listener), port in stack.prepare().items() if listener == "CLIENT"}
        doors: dict[str, tuple[int, int]] = {}
        for name, port in ports.items():
            doors[name] = choose(None, [*ports.values(), *(door for door, _ in doors.values())]), port
        for name, (advertised, _port) in doors.items():
            stack.advertise(name, "CLIENT", advertised)
        try:
            yield ProxiedKafka(stack.up().direct_servers, doors)
        finally:
            stack.down(wipe=True)


@pytest.fixture(scope="session")
def postgres_dsn(stack: Stack) -> str:
    return stack.dsn


@pytest.fixture
def database(postgres_dsn: str) -> Iterator[Database]:
    with proxied(postgres_dsn) as database:
        yield database


@pytest.fixture
def background(database: Database) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool
        database.proxy.close()  # frees a thread that a failed test left waiting
