"""The local stack as a library: one controller, three brokers and PostgreSQL under one folder."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fencepost.errors import Unreachable, Usage
from fencepost.local import kafka, launch, postgres, postgres_as_root, privacy, state, status
from fencepost.local.interrupts import held_back, terminating
from fencepost.local.kafka import ADVERTISED, BROKERS, LISTENERS, NODE_IDS, Tuning
from fencepost.local.ports import HOST
from fencepost.local.processes import POSTGRES, Processes
from fencepost.machine import process
from fencepost.machine.disk import explained
from fencepost.machine.progress import Progress, Silent
from fencepost.machine.trust import require_facts

DEFAULT_HOME = ".fencepost"
_MARKS = ("lock", "state.json")  # a folder with one of these is a stack's home
_OURS = ("kafka", "passfile", "postgres.log", "postgres.old.log", "state.json")
_IGNORED = "*\n"  # of a home inside a repository


class Stack:
    """One stack. `with Stack(home) as stack` has it up inside the block, and down after it unless it was up before."""

    def __init__(
        self,
        home: Path | str = DEFAULT_HOME,
        *,
        quick_timeouts: bool | None = None,
        broker_settings: Mapping[str, str] | None = None,
        advertise: Mapping[tuple[str, str], int] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Nothing is started yet. Settings that are not given stay what they are in a stack that runs.

        `advertise` tells clients of a broker's listener another port than its own: that of a proxy.
        """
        self.home = Path(home).resolve()
        self._quick_timeouts = quick_timeouts
        self._broker_settings = broker_settings
        self._advertise: dict[str, int] | None = None
        for (name, listener), port in (advertise or {}).items():
            self.advertise(name, listener, port)
        with explained(self.home):
            self._processes = Processes(self.home, progress or Silent())
        self._was_up = False

    @classmethod
    @contextmanager
    def temporary(
        cls,
        *,
        quick_timeouts: bool = False,
        broker_settings: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Stack]:
        """A stack of its own in a temporary folder, wiped at the end, when SIGTERM ends the process too."""
        with terminating(), tempfile.TemporaryDirectory(prefix="fencepost-") as folder:
            home = Path(folder) / "home"
            stack = cls(home, quick_timeouts=quick_timeouts, broker_settings=broker_settings, progress=progress)
            try:
                yield stack.up()
            finally:
                stack.down(wipe=True)

    def __enter__(self) -> Self:
        self._processes.reload()
        self._was_up = bool(self._processes.running())
        return self.up()

    def __exit__(self, *_failure: object) -> None:
        if not self._was_up:
            self.down()

    @property
    def exists(self) -> bool:
        """Is there a stack in this home, up or down?"""
        return any((self.home / name).exists() for name in _MARKS)

    # What clients need

    @property
    def bootstrap_servers(self) -> str:
        """As advertised to clients."""
        return ",".join(f"{HOST}:{self._told(name)}" for name in BROKERS)

    @property
    def direct_servers(self) -> str:
        """Past any proxy, for checks."""
        return ",".join(f"{HOST}:{self.node(name).ports['DIRECT']}" for name in BROKERS)

    @property
    def dsn(self) -> str:
        """A connection string that works as it is; the password is in a passfile."""
        return postgres.dsn(self.home, self.postgres.ports["SQL"])

    def _told(self, name: str) -> int:
        return self._processes.state.tuning.advertise.get(f"{name}/CLIENT", self.node(name).ports["CLIENT"])

    # Up and down

    def prepare(self) -> Mapping[tuple[str, str], int]:
        """Settle the ports before anything starts, so that proxies can be put before them: by broker and listener."""
        with self._changing():
            if not self._processes.running():
                launch.plan(self._processes, self._tuning())
        return {(name, listener): self.node(name).ports[listener] for name in BROKERS for listener in LISTENERS}

    def advertise(self, name: str, listener: str, port: int | None) -> None:
        """Tell clients of this listener another port, or its own again (None); from the broker's next start on.

        CONTROLLER is where this broker itself finds the controller.
        """
        if name not in BROKERS or listener not in ADVERTISED:
            allowed = f"one of {', '.join(BROKERS)}, and one of {', '.join(ADVERTISED)}"
            raise Usage(f"{name} has no listener {listener} to advertise", allowed)
        self._advertise = dict(self._advertise or {})
        if port is None:
            self._advertise.pop(f"{name}/{listener}", None)
        else:
            self._advertise[f"{name}/{listener}"] = port

    def up(self) -> Self:
        """Have everything up and answering. What runs already is left alone, unless it runs with other settings."""
        if set(self._processes.running()) != set(state.NAMES):
            self._processes.runtime  # noqa: B018  (Java and the jars, before anything is made here)
        with self._changing(), self._forgotten_if_it_never_was():
            launch.check_room(self._processes)
            launch.bring_up(self._processes, self._tuning())
        return self

    @contextmanager
    def _forgotten_if_it_never_was(self) -> Iterator[None]:
        """Nothing stays of a first start that was interrupted. The logs of one that failed do."""
        first = not state.path(self.home).exists()
        try:
            yield
        except BaseException as failure:
            logs = isinstance(failure, Exception) and (self.home / "kafka").exists()
            if first and not logs:
                with held_back():
                    self._processes.end_orphans()
                    self._wipe()
            raise

    def down(self, *, wipe: bool = False) -> None:
        """Stop everything; keep the data, or remove it."""
        if not self.exists:
            return
        with self._changing():
            self._processes.end_orphans()  # first: a broker among them still needs the controller
            self._processes.end(state.NAMES)
            if wipe:
                self._wipe()
            else:
                self._processes.save()

    def _wipe(self) -> None:
        postgres_as_root.remove(self.home)
        for name in _OURS:
            path = self.home / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        ignored = self.home / ".gitignore"
        if ignored.is_file() and ignored.read_bytes() == _IGNORED.encode():
            ignored.unlink()
        (self.home / "lock").unlink()
        if not any(self.home.iterdir()):  # what somebody else put there stays
            self.home.rmdir()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Alone with the stack, and with what is true of it now."""
        with explained(self.home):
            self._refuse_a_folder_of_others()
            with state.exclusive(self.home, self._processes.progress):
                privacy.tighten(self.home, (*_OURS, *_MARKS, ".gitignore", "postgres"))
                if not (self.home / ".gitignore").exists():
                    (self.home / ".gitignore").write_text(_IGNORED)
                if not self._processes.reload():
                    damaged = state.path(self.home)
                    self._processes.progress.note(f"{damaged} is damaged: going by what is found instead")
                yield

    def _refuse_a_folder_of_others(self) -> None:
        """A home is written to, and wiped: what has our names in there must be ours."""
        if self.home.is_dir():
            require_facts(self.home, self.home.stat(), "choose another folder with --home DIR")
        names = [name for name in (*_OURS, "postgres") if (self.home / name).exists()]
        if names and not self.exists:
            raise Usage(f"{self.home} has a {names[0]} that is not a stack's", "choose another folder with --home DIR")

    def _tuning(self) -> Tuning:
        """What was asked for here; for the rest, what the processes that run were started with."""
        current = self._processes.state.tuning if self._processes.running() else Tuning()
        return Tuning(
            current.quick_timeouts if self._quick_timeouts is None else self._quick_timeouts,
            current.broker_settings if self._broker_settings is None else dict(self._broker_settings),
            current.advertise if self._advertise is None else dict(self._advertise),
        )

    # Looking at it, and taking it apart

    def status(self) -> status.Status:
        with explained(self.home):
            self._processes.reload()
            known = all(record.ports for record in self._processes.state.nodes.values())
            return status.Status(
                self.home,
                status.look(self._processes),
                tuple(identity.pid for identity, _kind in self._processes.orphans()),
                self.bootstrap_servers if known else None,
                self.dsn if known else None,
            )

    @property
    def brokers(self) -> dict[str, Node]:
        return {name: self.node(name) for name in BROKERS}

    @property
    def postgres(self) -> Node:
        return self.node(POSTGRES)

    def node(self, name: str) -> Node:
        if name not in state.NAMES:
            raise Usage(f"there is no process named {name}", f"one of {', '.join(state.NAMES)}")
        return Node(self, name)

    def wait_in_sync(self, timeout: float = launch.PATIENCE) -> None:
        """Wait until all brokers agree that every partition has a leader and a full in-sync set."""
        if not process.until(lambda: kafka.in_sync(self._processes.direct), timeout, 0.05):
            raise Unreachable(f"the in-sync sets were not full within {timeout:.0f} s", "fencepost stack status")


@dataclass(frozen=True)
class Node:
    """A handle on one process of a stack, to break it with."""

    stack: Stack
    name: str

    @property
    def _processes(self) -> Processes:
        return self.stack._processes

    @property
    def node_id(self) -> int:
        return NODE_IDS[self.name]

    @property
    def ports(self) -> Mapping[str, int]:
        """By listener: CLIENT, INTERNAL and DIRECT of a broker, CONTROLLER, or SQL."""
        return self._processes.state.nodes[self.name].ports

    @property
    def alive(self) -> bool:
        return self._processes.identity(self.name) is not None

    @property
    def pid(self) -> int:
        return self._identity().pid

    def kill(self) -> None:
        """SIGKILL, to its children too; gone on return."""
        killed = process.send_all(self._identity(), signal.SIGKILL)
        process.until(lambda: not any(map(process.alive, killed)), launch.PATIENCE)

    def stop(self) -> None:
        """SIGSTOP, to its children too: it holds its connections and does nothing, from the return on."""
        held = process.send_all(self._identity(), signal.SIGSTOP)
        process.until(lambda: all(map(process.stopped, held)), launch.PATIENCE)

    def cont(self) -> None:
        """SIGCONT: it goes on as if nothing had been."""
        process.send_all(self._identity(), signal.SIGCONT)

    def restart(self) -> None:
        """End it if it runs, start it, and wait until it answers as a member."""
        with self.stack._changing():
            self._processes.end([self.name])
            self._processes.end_orphans()
            others = self._processes.running()
            planned = launch.plan(self._processes, self.stack._tuning())
            # Others only where they had to end for it: when its new port is in their settings.
            names = [name for name in planned if name == self.name or name in others]
            self._processes.start(names)
            for name in names:
                launch.await_one(self._processes, name)

    def _identity(self) -> process.Identity:
        if identity := self._processes.identity(self.name):
            return identity
        raise Unreachable(f"{self.name} is not running", "fencepost up")
