"""The nodes of the Kafka cluster: their settings, their format, their command line, and when they are ready."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.local import wire
from fencepost.local.ports import HOST
from fencepost.machine import disk
from fencepost.machine.java import Java
from fencepost.machine.process import Program

CONTROLLER = "controller"
BROKERS = {"broker-1": 1, "broker-2": 2, "broker-3": 3}
NODE_IDS = {CONTROLLER: 100, **BROKERS}
LISTENERS = ("CLIENT", "INTERNAL", "DIRECT")
ADVERTISED = (*LISTENERS, "CONTROLLER")  # the last is the controller's, and each broker may be told another port
SERVER, FORMATTER = "kafka.Kafka", "kafka.tools.StorageTool"
BOOTSTRAP_PORTS = {"broker-1": 9091, "broker-2": 9092, "broker-3": 9093}

_PROTOCOLS = "CONTROLLER:PLAINTEXT,CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,DIRECT:PLAINTEXT"
_SETTINGS = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    # Three brokers share a small machine.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
}
# For fault tests only: with Spark on the same two cores these drop healthy brokers.
_QUICK = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "5000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "500",
}
_LOGGING = """status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = server.log
appender.file.filePattern = server.%i.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 8MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError", "-Xshare:auto")


@dataclass(frozen=True)
class Runtime:
    """What a node runs on."""

    java: Java
    jars: Sequence[Path]
    archive: Path | None = None  # classes loaded and verified beforehand (AppCDS)

    @property
    def env(self) -> dict[str, str]:
        # Not an option: forty-six paths would bury everything else in a process list.
        return {"CLASSPATH": ":".join(map(str, self.jars)), "LC_ALL": "C.UTF-8"}

    def command(self, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        shared = [f"-XX:SharedArchiveFile={self.archive}"] if self.archive else []
        return [str(self.java.executable), *_JVM, *shared, *options, *arguments]


def new_id() -> str:
    """For a cluster or a data folder, as Kafka writes them: never with a dash in front, which would be an option."""
    found = "-"
    while found.startswith("-"):
        found = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    return found


@dataclass(frozen=True)
class Tuning:
    """What a caller may ask of the brokers."""

    quick_timeouts: bool = False
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    advertise: Mapping[str, int] = field(default_factory=dict)  # "broker-1/CLIENT" to the port that clients are told


def properties(name: str, ports: Mapping[str, Mapping[str, int]], tuning: Tuning) -> str:
    """The text of a node's server.properties; `ports` are those of every node."""
    settings = {
        "node.id": str(NODE_IDS[name]),
        "process.roles": "controller" if name == CONTROLLER else "broker",
        # Relative to the node's folder: a home may contain commas, spaces and letters that this file cannot hold.
        "log.dirs": "data",
        "controller.quorum.voters": f"{NODE_IDS[CONTROLLER]}@{HOST}:{_way_to_controller(name, ports, tuning)}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": _PROTOCOLS,
        **_SETTINGS,
        **(_QUICK if tuning.quick_timeouts else {}),
        **_listeners(name, ports[name], tuning.advertise),
        **tuning.broker_settings,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _way_to_controller(name: str, ports: Mapping[str, Mapping[str, int]], tuning: Tuning) -> int:
    return tuning.advertise.get(f"{name}/CONTROLLER", ports[CONTROLLER]["CONTROLLER"])


def _listeners(name: str, ports: Mapping[str, int], advertise: Mapping[str, int]) -> dict[str, str]:
    own = {listener: f"{listener}://{HOST}:{port}" for listener, port in ports.items()}
    if name == CONTROLLER:
        return {"listeners": own["CONTROLLER"]}
    told = {listener: advertise.get(f"{name}/{listener}", port) for listener, port in ports.items()}
    return {
        "listeners": ",".join(own.values()),
        "advertised.listeners": ",".join(f"{listener}://{HOST}:{port}" for listener, port in told.items()),
        "inter.broker.listener.name": "INTERNAL",
    }


def format_broker(node: Path, node_id: int, cluster_id: str) -> None:
    """A broker's data folder needs nothing but to know whose it is."""
    data = node / "data"
    if (data / "meta.properties").exists():
        return
    data.mkdir(exist_ok=True)
    text = f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={new_id()}\n"
    disk.write(data / "meta.properties", text)


def folder(home: Path, name: str) -> Path:
    return home / "kafka" / name


def formatting(runtime: Runtime, home: Path, node: Path, cluster_id: str) -> Program:
    """The controller's data folder also holds the features that the cluster begins with: Kafka's tool knows them."""
    arguments = ("format", "--ignore-formatted", "-t", cluster_id, "-c", "server.properties")
    argv = runtime.command(FORMATTER, *arguments, options=[home_option(home)])
    return Program(argv, folder=node, log=node / "out.log", env=runtime.env)


def serving(runtime: Runtime, home: Path, node: Path, *options: str) -> Program:
    """The node itself. The option names the home, so that a process without a record is known by its command line."""
    (node / "log4j2.properties").write_text(_LOGGING)
    always = (home_option(home), node_option(node.name), "-Dlog4j2.configurationFile=log4j2.properties")
    argv = runtime.command(SERVER, "server.properties", options=[*always, *options])
    return Program(argv, folder=node, log=node / "out.log", env=runtime.env)


def home_option(home: Path) -> str:
    return f"-Dfencepost.home={home}"


def node_option(name: str) -> str:
    return f"-Dfencepost.node={name}"


def registered(node_id: int, ports: Mapping[str, int]) -> bool:
    """Does this broker answer on every listener, and is it a member of the cluster in its own eyes?

    Every one: it opens them one after the other, and ends when one of them cannot be had.
    """
    try:
        return all(node_id in wire.metadata(port).brokers for port in ports.values())
    except wire.NoAnswer:
        return False


def controlled(direct_ports: Iterable[int]) -> bool:
    """Does an active controller answer one of the brokers?"""
    for port in direct_ports:
        with suppress(wire.NoAnswer):
            if wire.can_create(port, replicas=1):
                return True
    return False


def usable(direct_ports: Mapping[int, int], replicas: int = 3) -> bool:
    """Can topics be created, and is the coordinator of every transaction loaded? Ports by node id."""
    anyone = next(iter(direct_ports.values()))
    try:
        if not wire.can_create(anyone, replicas):
            return False
        wire.coordinator(anyone, "fencepost", wire.GROUP)  # so that the first consumer need not wait for its topic
        return all(_loaded(anyone, key, direct_ports) for key in "0123")  # one for each of four partitions
    except wire.NoAnswer:
        return False


def _loaded(anyone: int, key: str, direct_ports: Mapping[int, int]) -> bool:
    node = wire.coordinator(anyone, key, wire.TRANSACTION)
    return node is not None and node in direct_ports and wire.coordinates(direct_ports[node], key)


def in_sync(direct_ports: Mapping[int, int]) -> bool:
    """Does every broker see a leader and a full in-sync set for every partition?"""
    try:
        views = [wire.metadata(port) for port in direct_ports.values()]
    except wire.NoAnswer:
        return False
    return all(
        view.brokers == set(direct_ports)
        and all(set(part.in_sync) == set(part.replicas) and part.leader >= 0 for part in view.partitions)
        for view in views
    )
