"""What can be said of a stack from outside: each process, and how the leaders are spread."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil

from fencepost.local import wire
from fencepost.local.kafka import BROKERS, CONTROLLER
from fencepost.local.processes import POSTGRES, Processes
from fencepost.local.state import NAMES
from fencepost.machine import process
from fencepost.machine.process import Identity

_MAIN_LISTENER = {CONTROLLER: "CONTROLLER", POSTGRES: "SQL"}


class Condition(StrEnum):
    UP = "up"
    SILENT = "no answer"
    STOPPED = "stopped"  # by SIGSTOP
    DOWN = "down"


@dataclass(frozen=True)
class NodeStatus:
    name: str
    state: Condition
    port: int | None
    pid: int | None = None
    memory: int | None = None  # bytes
    uptime: float | None = None  # seconds
    leaders: int | None = None  # partitions that this broker leads


@dataclass(frozen=True)
class Status:
    home: Path
    nodes: tuple[NodeStatus, ...]
    orphans: tuple[int, ...]  # pids of processes of this home that nothing remembers
    bootstrap_servers: str | None  # None: never started
    dsn: str | None

    @property
    def missing(self) -> list[str]:
        return [node.name for node in self.nodes if node.state is not Condition.UP]

    def as_json(self) -> dict[str, Any]:
        return {
            "home": str(self.home),
            "up": not self.missing,
            "bootstrap.servers": self.bootstrap_servers,
            "postgres": self.dsn,
            "nodes": [vars(node) for node in self.nodes],
            "orphans": list(self.orphans),
        }


def look(processes: Processes) -> tuple[NodeStatus, ...]:
    """Every process as it is now."""
    leaders = _leaders(processes)
    return tuple(_node(processes, name, leaders) for name in NAMES)


def _node(processes: Processes, name: str, leaders: Counter[int] | None) -> NodeStatus:
    port = processes.state.nodes[name].ports.get(_MAIN_LISTENER.get(name, "CLIENT"))
    identity = processes.identity(name)
    if identity is None:
        return NodeStatus(name, Condition.DOWN, port)
    led = leaders[BROKERS[name]] if leaders is not None and name in BROKERS else None
    return NodeStatus(name, _condition(processes, name, identity), port, identity.pid, *_usage(identity), led)


def _condition(processes: Processes, name: str, identity: Identity) -> Condition:
    if process.stopped(identity):
        return Condition.STOPPED
    return Condition.UP if processes.ready(name) else Condition.SILENT


def _usage(identity: Identity) -> tuple[int | None, float | None]:
    try:
        born = psutil.Process(identity.pid).create_time()
    except psutil.Error:
        return None, None
    return sum(_memory(member.pid) for member in process.family(identity)), time.time() - born


def _memory(pid: int) -> int:
    """Each process's share of what it has in common with others, where the system tells; else all of it."""
    try:
        one = psutil.Process(pid)
        with suppress(psutil.AccessDenied):
            return int(one.memory_full_info().pss)
        return int(one.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _leaders(processes: Processes) -> Counter[int] | None:
    for name in BROKERS:
        identity = processes.identity(name)
        if identity and not process.stopped(identity):
            try:
                partitions = wire.metadata(processes.state.nodes[name].ports["DIRECT"]).partitions
            except wire.NoAnswer:
                continue
            return Counter(partition.leader for partition in partitions)
    return None
