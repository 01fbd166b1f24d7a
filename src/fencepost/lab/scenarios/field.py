"""Where things are broken: a stack of its own, with a proxy before every broker, for clients and for replication, and
before PostgreSQL. It is gone with the process that opened it, however that ends."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from psycopg.conninfo import make_conninfo

from fencepost.errors import Unreachable
from fencepost.kafka.client import Cluster
from fencepost.kafka.errors import Missing
from fencepost.kafka.topic_reader import read_in_order
from fencepost.kafka.topics import TopicDescription, describe_topic
from fencepost.lab.keeper import keeping
from fencepost.lab.proxy import Protocol, Proxy
from fencepost.local import Stack
from fencepost.local.interrupts import held_back
from fencepost.local.kafka import BROKERS, CONTROLLER
from fencepost.local.ports import HOST, choose

PATIENCE = 30.0
CONTROLLER_WAY = "CONTROLLER"  # of a broker: the way on which it finds the controller
# One that is not answered there for two seconds would ask at the controller's own address, round the proxy.
STAYS = {f"controller.quorum.{what}.timeout.ms": "600000" for what in ("fetch", "request")}
DATABASE = "postgres/SQL"  # what the proxy calls the way to PostgreSQL
# A client that notices within seconds what real ones notice within a minute.
QUICK = {
    "reconnect.backoff.ms": "20",
    "reconnect.backoff.max.ms": "100",
    "retry.backoff.ms": "20",
    "retry.backoff.max.ms": "100",
    "socket.timeout.ms": "1500",
}


@dataclass(frozen=True)
class Field:
    """Brokers with proxies before them, and a way past these for whoever checks."""

    stack: Stack
    proxy: Proxy
    token: str = ""  # in the environment of every process that is started here
    unasked: tuple[str, ...] = ()  # brokers that checks do not ask: they stand still, or do not know better

    @property
    def kafka(self) -> dict[str, str]:
        """For the producers of a story: through the proxies, under a client id of their own."""
        return {"bootstrap.servers": self.stack.bootstrap_servers, "client.id": f"story-{uuid4().hex}", **QUICK}

    @property
    def direct(self) -> dict[str, str]:
        asked = [node for name, node in self.stack.brokers.items() if name not in self.unasked]
        return {"bootstrap.servers": ",".join(f"{HOST}:{node.ports['DIRECT']}" for node in asked)}

    @property
    def dsn(self) -> str:
        """PostgreSQL, through its proxy."""
        return make_conninfo(self.stack.dsn, port=self.proxy.ports()[DATABASE])

    def topic(self, *replicas: list[int], min_in_sync: int = 2) -> str:
        """A topic whose partitions are led by the first of their replicas, ready to be written to."""
        name = f"story-{uuid4().hex}"
        layout = [list(each) for each in replicas or ([1, 2, 3],)]
        new = NewTopic(name, len(layout), replica_assignment=layout, config={"min.insync.replicas": str(min_in_sync)})
        with Cluster(self.direct) as cluster:
            cluster.tell(lambda: cluster.admin.create_topics([new])[name], f"topic {name}")
        self.await_true(lambda: self.in_sync(name) == [set(each) for each in layout], f"{name} has no leaders")
        return name

    def configure(self, topic: str, name: str, value: str) -> None:
        """Another setting, behind the back of those who looked at the topic when they began."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        with Cluster(self.direct) as cluster:
            cluster.tell(lambda: cluster.admin.incremental_alter_configs([resource])[resource], f"topic {topic}")

    def in_sync(self, topic: str) -> list[set[int]]:
        """By partition; empty while the broker that is asked has not heard of the topic."""
        try:
            return [set(each.in_sync) for each in self._described(topic).partitions]
        except Missing:
            return []

    def leader(self, topic: str) -> int | None:
        """Of its first partition. Asks for no offsets: a leader that lacks some has none to tell."""
        with Cluster(self.direct) as cluster:
            leader = cluster.admin.list_topics(topic, PATIENCE).topics[topic].partitions[0].leader
        return leader if leader >= 0 else None

    def _described(self, topic: str) -> TopicDescription:
        with Cluster(self.direct) as cluster:
            return describe_topic(cluster, topic)

    def read(self, topic: str, isolation: str = "read_committed") -> list[bytes]:
        """Every value that a reader gets now, partition by partition, in order."""
        found = read_in_order(self.direct, topic, committed=isolation == "read_committed")
        return [message.value() or b"" for message in found]

    def await_read(self, topic: str, expected: Mapping[bytes, int]) -> None:
        self.await_true(lambda: Counter(self.read(topic)) == Counter(expected), f"{topic} does not hold what it should")

    @staticmethod
    def await_true(condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise Unreachable(f"{otherwise} after {PATIENCE:.0f} s")
            time.sleep(0.02)


@contextmanager
def without_libpq_variables() -> Iterator[None]:
    """Of the environment: PGPASSWORD comes before any passfile, and PGOPTIONS changes what a session is."""
    held = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("PG")}
    try:
        yield
    finally:
        os.environ.update(held)


@contextmanager
def opened(*, quick: bool = True) -> Iterator[Field]:
    """A field of one's own; everything is wiped at the end. `quick`: brokers with timeouts that are too short for Spark
    beside them on a small machine."""
    with (
        without_libpq_variables(),
        tempfile.TemporaryDirectory(prefix="fencepost-field-") as folder,
        keeping(Path(folder)) as token,
        Proxy() as proxy,
    ):
        stack = Stack(Path(folder) / "home", quick_timeouts=quick, broker_settings=STAYS)
        ports = {door: port for door, port in stack.prepare().items() if door[1] in ("CLIENT", "INTERNAL")}
        controller = stack.node(CONTROLLER).ports["CONTROLLER"]
        ports |= {(name, CONTROLLER_WAY): controller for name in BROKERS}
        taken = list(ports.values())
        for (name, listener), port in ports.items():
            taken.append(choose(None, taken))
            proxy.listen(door_name(name, listener), (HOST, port), Protocol.KAFKA, port=taken[-1])
            stack.advertise(name, listener, taken[-1])
        try:
            stack.up()
            proxy.listen(DATABASE, (HOST, stack.postgres.ports["SQL"]), Protocol.POSTGRES)
            yield Field(stack, proxy, token)
        finally:
            with held_back():  # Ctrl-C is pressed twice by many
                stack.down(wipe=True)


def door_name(broker: str, listener: str) -> str:
    """What the proxy calls the way to a broker's listener."""
    return f"{broker}/{listener}"
