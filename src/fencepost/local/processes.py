"""The five processes of one home: what is remembered of them, how each starts and ends, and when it is ready."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

from fencepost.errors import Unreachable
from fencepost.local import cds, diagnosis, kafka, orphans, postgres, postgres_as_root, state
from fencepost.local.interrupts import held_back
from fencepost.local.kafka import BROKERS, CONTROLLER, NODE_IDS, Runtime
from fencepost.local.orphans import Orphan
from fencepost.local.ports import listening
from fencepost.local.state import State
from fencepost.machine import jars, java, process
from fencepost.machine.process import Identity, Program
from fencepost.machine.progress import Progress
from fencepost.machine.trust import believed

POSTGRES = postgres.NAME
_STOPPING = 30.0
_ALONE = 3.0  # without its controller, a broker's orderly end never comes


class NodeEnded(Unreachable):
    """A process of the stack ended while it was starting."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} ended while it was starting: {reason}")
        self.name = name


class Processes:
    """What `state.json` says, and the processes that it speaks of."""

    def __init__(self, home: Path, progress: Progress) -> None:
        self.home = home
        self.progress = progress
        self.state: State = state.load(home) or state.new(home)
        self._logs: dict[str, dict[Path, int]] = {}

    @cached_property
    def runtime(self) -> Runtime:
        found = Runtime(java.find(), jars.fetch("broker", progress=self.progress))
        return cds.with_archive(found, self.progress)

    def drop_damaged_archive(self) -> bool:
        """Was the archive of classes damaged, so that a node could not start? Then it is gone, and done without."""
        sound = cds.without_damage(self.runtime, self.progress)
        damaged = sound is not self.runtime
        self.runtime = sound
        return damaged

    @property
    def direct(self) -> dict[int, int]:
        """The ports for questions, by node id."""
        return {node_id: self.state.nodes[name].ports["DIRECT"] for name, node_id in BROKERS.items()}

    @cached_property
    def _accounts(self) -> set[int]:
        return believed() | postgres_as_root.accounts()

    def reload(self) -> bool:
        """Read again what is remembered; False when it is there and cannot be used."""
        found = state.load(self.home)
        self.state = found or state.new(self.home)
        return found is not None or not state.path(self.home).exists()

    def save(self) -> None:
        state.save(self.home, self.state)

    def identity(self, name: str) -> Identity | None:
        """The process of this name, if it is alive, and one of an account that we start processes as."""
        found = self.state.nodes[name].process
        return found if found and process.owner(found) in self._accounts else None

    def running(self) -> list[str]:
        return [name for name in state.NAMES if self.identity(name)]

    def ready(self, name: str) -> bool:
        """Does it answer, and mean it?"""
        ports = self.state.nodes[name].ports
        if name == POSTGRES:
            return postgres.answers(self.home, ports["SQL"])
        if name == CONTROLLER:
            return self._controlled(ports["CONTROLLER"])
        return kafka.registered(NODE_IDS[name], ports)

    def _controlled(self, port: int) -> bool:
        """Only a broker can say whether its controller is at work; with none, that it listens must do."""
        at_work = [name for name in BROKERS if (found := self.identity(name)) and not process.stopped(found)]
        if not at_work:
            return listening(port)
        return kafka.controlled(self.direct[BROKERS[name]] for name in at_work)

    def start(self, names: Collection[str]) -> None:
        """Start them, made ready for their first start where it is the first. On return they run, but are not ready."""
        self._logs = {name: diagnosis.sizes(self._log_files(name)) for name in names}
        with ExitStack() as then:  # what takes a while goes on beside the rest: last begun, first waited for
            if POSTGRES in names:
                then.enter_context(self._database())
            if CONTROLLER in names:
                then.enter_context(self._controller())
            for name in BROKERS:
                if name in names:
                    kafka.format_broker(kafka.folder(self.home, name), NODE_IDS[name], self.state.cluster_id)
                    self._serve(name)

    @contextmanager
    def _controller(self) -> Iterator[None]:
        """Format its data while the block runs, and start it after."""
        node = kafka.folder(self.home, CONTROLLER)
        if (node / "data" / "meta.properties").exists():
            yield
        else:
            with self._job(CONTROLLER, kafka.formatting(self.runtime, self.home, node, self.state.cluster_id)):
                yield
        self._serve(CONTROLLER)

    @contextmanager
    def _database(self) -> Iterator[None]:
        """Make its data folder while the block runs, and start it after."""
        server = postgres.server(self.home)
        if server.data.exists():
            server.repair()
            yield
        else:
            with self._job(POSTGRES, server.initialising()):
                yield
            server.initialised()
        self._spawn(POSTGRES, server.serving(self.state.nodes[POSTGRES].ports["SQL"]))

    @contextmanager
    def _job(self, name: str, program: Program) -> Iterator[None]:
        with process.finishing(program) as running:
            yield
            if running.wait() != 0:
                raise NodeEnded(name, self._why(name))

    def _serve(self, name: str) -> None:
        self._spawn(name, kafka.serving(self.runtime, self.home, kafka.folder(self.home, name)))

    def _spawn(self, name: str, program: Program) -> None:
        with held_back():  # a process that runs and a record of it are one step, whatever key is pressed
            self.state.nodes[name].process = process.spawn(program)
            self.save()

    def _log_files(self, name: str) -> list[Path]:
        node = kafka.folder(self.home, name)
        return [self.home / "postgres.log"] if name == POSTGRES else [node / "server.log", node / "out.log"]

    def _why(self, name: str) -> str:
        """What its logs say since it was started; all of them, if that was not here."""
        return diagnosis.explain(self._logs.get(name) or dict.fromkeys(self._log_files(name), 0))

    def check(self, names: Iterable[str]) -> None:
        """Raise NodeEnded, with the reason, if one of them is gone."""
        for name in names:
            if not self.identity(name):
                raise NodeEnded(name, self._why(name))

    def end(self, names: Collection[str], timeout: float = _STOPPING) -> None:
        """End them in the order in which they can: brokers, then their controller; PostgreSQL meanwhile."""
        controller = self.identity(CONTROLLER)
        if controller:
            process.send(controller, signal.SIGCONT)
        brokers = [found for name in BROKERS if name in names and (found := self.identity(name))]
        database = self.identity(POSTGRES) if POSTGRES in names else None
        if database:
            process.send(database, signal.SIGINT)
        process.end(brokers, signal.SIGTERM, timeout if controller else min(timeout, _ALONE))
        if controller and CONTROLLER in names:
            process.end([controller], signal.SIGTERM, timeout)
        if database:
            process.end([database], signal.SIGINT, timeout)
        for name in names:
            self.state.nodes[name].process = None

    def orphans(self) -> list[Orphan]:
        """What runs in this home without a record."""
        known = [found for name in state.NAMES if (found := self.identity(name))]
        return orphans.find(self.home, known, postgres_as_root.existing(self.home))

    def end_orphans(self) -> None:
        if found := self.orphans():
            self.progress.note(f"ending {len(found)} orphaned process(es) of {self.home}")
            orphans.end(found)
