"""Bringing a stack up: what is down gets ports and settings, is started and waited for; or nothing is left of it."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from fencepost.errors import Unreachable
from fencepost.local import kafka, ports, postgres, state
from fencepost.local.interrupts import held_back
from fencepost.local.kafka import BOOTSTRAP_PORTS, CONTROLLER, LISTENERS, NODE_IDS, Tuning
from fencepost.local.processes import POSTGRES, NodeEnded, Processes
from fencepost.machine import process
from fencepost.machine.disk import write
from fencepost.machine.progress import Advance

PATIENCE = 90.0
_HASTE = 3.0  # what has only just started has nothing to lose
_POLL = 0.05
_TRIES = 4  # a port can be lost to another program between choosing it and listening there
_ROOM = 150 * 1024 * 1024  # what a new stack takes, with some space to work in


def bring_up(processes: Processes, tuning: Tuning) -> None:
    """Have all five up, with these settings. Whatever fails or interrupts ends what was started here."""
    with _undone(processes):
        processes.end_orphans()
        elsewhere: set[str] = set()
        for attempt in range(1, _TRIES + 1):
            names = plan(processes, tuning, elsewhere)
            label = f"starting {', '.join(names)}" if names else "already up"
            try:
                with processes.progress.bar(label, len(state.NAMES) + 1) as advance:
                    processes.start(names)
                    _await_all(processes, advance)
                return
            except NodeEnded as ended:
                if attempt == _TRIES or not _repaired(processes, ended):
                    raise
                elsewhere.add(ended.name)


@contextmanager
def _undone(processes: Processes) -> Iterator[None]:
    before = processes.running()
    try:
        yield
    except BaseException:
        with held_back():
            processes.end([name for name in state.NAMES if name not in before], _HASTE)
            processes.save()
        raise


def plan(processes: Processes, tuning: Tuning, elsewhere: Collection[str] = ()) -> list[str]:
    """Settle ports and settings and write them down; says which processes are to be started. Ends none but those
    that run with other settings than these, or whose password is lost. `elsewhere`: they get other ports than before.
    """
    up = processes.running()
    if POSTGRES in up and not postgres.has_password(processes.home):
        processes.end([POSTGRES])
        up.remove(POSTGRES)
    processes.state.tuning = tuning
    _choose_ports(processes, up, elsewhere)
    outdated = _configure(processes, up)
    processes.end(outdated)
    processes.save()
    return [name for name in state.NAMES if name not in up or name in outdated]


def _choose_ports(processes: Processes, up: Sequence[str], elsewhere: Collection[str]) -> None:
    nodes = processes.state.nodes
    taken = {port for name in up for port in nodes[name].ports.values()}
    for name in state.NAMES:
        if name in up:
            continue
        wanted = {} if name in elsewhere else nodes[name].ports or {"CLIENT": BOOTSTRAP_PORTS.get(name, 0)}
        nodes[name].ports = {}
        for listener in _listeners(name):
            nodes[name].ports[listener] = ports.choose(wanted.get(listener), taken)
            taken.add(nodes[name].ports[listener])


def _listeners(name: str) -> tuple[str, ...]:
    if name == POSTGRES:
        return ("SQL",)
    return ("CONTROLLER",) if name == CONTROLLER else LISTENERS


def _configure(processes: Processes, up: Sequence[str]) -> list[str]:
    """Write every node's settings; returns those that run with others."""
    outdated = []
    kafka.folder(processes.home, "").mkdir(mode=0o700, exist_ok=True)  # root's home lets others pass through
    for name in NODE_IDS:
        node = kafka.folder(processes.home, name)
        node.mkdir(exist_ok=True)
        file = node / "server.properties"
        text = kafka.properties(name, processes.state.ports(), processes.state.tuning)
        if not file.exists() or file.read_bytes() != text.encode():
            write(file, text)
            outdated += [name] if name in up else []
    return outdated


def _await_all(processes: Processes, advance: Advance) -> None:
    """Wait until every process answers, those that ran before too, and the cluster can be used."""
    waiting = list(state.NAMES)

    def answered() -> bool:
        processes.check(state.NAMES)
        waiting[:] = [name for name in waiting if not processes.ready(name)]
        advance(len(state.NAMES) - len(waiting))
        return not waiting and kafka.usable(processes.direct)

    if not process.until(answered, PATIENCE, _POLL):
        silent = ", ".join(waiting) or "the cluster as a whole"
        raise Unreachable(f"no answer from {silent} within {PATIENCE:.0f} s", f"see the logs in {processes.home}")
    advance(len(state.NAMES) + 1)


def await_one(processes: Processes, name: str) -> None:
    """Wait until this process answers."""

    def answered() -> bool:
        processes.check([name])
        return processes.ready(name)

    if not process.until(answered, PATIENCE, _POLL):
        raise Unreachable(f"no answer from {name} within {PATIENCE:.0f} s", f"see the logs in {processes.home}")


def _repaired(processes: Processes, ended: NodeEnded) -> bool:
    """Is there a reason why it should go better now?"""
    return _lost_a_port(processes, ended) or (ended.name in NODE_IDS and processes.drop_damaged_archive())


def _lost_a_port(processes: Processes, ended: NodeEnded) -> bool:
    """Another program has one of its ports, or had it then: a stack that starts at the same time may have given up."""
    if "Address already in use" in ended.message:
        return True
    return not all(ports.free(port) for port in processes.state.nodes[ended.name].ports.values())


def check_room(processes: Processes) -> None:
    """A new stack on a full disk would fail in five ways; this says it in one."""
    free = shutil.disk_usage(processes.home).free
    if free < _ROOM and not (processes.home / "kafka").exists():
        raise Unreachable(
            f"{processes.home} has {free // 2**20} MB left; a new stack needs {_ROOM // 2**20} MB",
            "make room on that disk, or choose another folder with --home DIR",
        )
