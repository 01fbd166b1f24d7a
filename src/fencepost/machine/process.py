"""A process that was started here and may be signalled later: its pid together with its birth, never the pid alone."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

POLL = 0.02
_BOOT = Path("/proc/sys/kernel/random/boot_id")  # Linux
_GONE = {"Z", "X"}  # states in /proc
_LOG_LIMIT = 8 * 1024 * 1024
_GRAVE = 10.0  # a killed process goes at once, unless the kernel is busy with it


@dataclass(frozen=True)
class Identity:
    """One process of this machine for all time: a pid is reused, a pid with its birth is not."""

    pid: int
    birth: str  # boot and start time; compared, never computed with


@dataclass(frozen=True)
class Account:
    """Whom a program runs as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Program:
    """What to run and where its output goes: into a file that only we can read, as is whatever it writes itself."""

    argv: Sequence[str]
    folder: Path
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    account: Account | None = None  # None: the same as ours
    inherits: bool = False  # our whole environment, secrets too; else only what any program needs


_NEEDED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

_children: dict[int, subprocess.Popen[bytes]] = {}


def identify(pid: int) -> Identity | None:
    """The process that has this pid now; None when there is none, or only its remains."""
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        _children.pop(pid, None)
        return None
    try:
        birth = _birth(pid)
    except (FileNotFoundError, ProcessLookupError, psutil.NoSuchProcess):
        return None
    return Identity(pid, birth) if birth else None


def _birth(pid: int) -> str | None:
    if not _BOOT.exists():
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.3f}"
    fields = _fields(Path(f"/proc/{pid}/stat"))
    gone = fields[0] in _GONE and _thread_states(pid) <= _GONE
    return None if gone else f"{_BOOT.read_text().strip()}/{fields[19]}"


def _thread_states(pid: int) -> set[str]:
    """Of all threads: the first may be gone while others still hold sockets and files."""
    states = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # threads come and go
            states.add(_fields(thread / "stat")[0])
    return states


def _fields(stat: Path) -> list[str]:
    """What follows the name, which may hold anything: state, parent, ..., start time."""
    return stat.read_text().rpartition(")")[2].split()


def alive(identity: Identity) -> bool:
    """Is this very process still there?"""
    return identify(identity.pid) == identity


def owner(identity: Identity) -> int | None:
    """Whom it runs as; None when it is gone."""
    try:
        uid = psutil.Process(identity.pid).uids().real
    except psutil.NoSuchProcess:
        return None
    return uid if alive(identity) else None


def stopped(identity: Identity) -> bool:
    """Is it there, but held by SIGSTOP, with every thread of it?"""
    if not alive(identity):
        return False
    try:
        if not _BOOT.exists():
            return psutil.Process(identity.pid).status() == psutil.STATUS_STOPPED
        return _thread_states(identity.pid) == {"T"}
    except (FileNotFoundError, ProcessLookupError, psutil.NoSuchProcess):
        return False


def send(identity: Identity, number: signal.Signals) -> bool:
    """Signal this very process; False when it is gone, whoever has its pid now."""
    if not hasattr(os, "pidfd_open"):
        return alive(identity) and _kill(identity.pid, number)
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    try:
        # The handle holds on to one process: what is checked after it was opened is what the signal reaches.
        if not alive(identity):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _kill(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def family(identity: Identity) -> list[Identity]:
    """The process and everything that descends from it."""
    if not alive(identity):
        return []
    try:
        pids = [child.pid for child in psutil.Process(identity.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
    return [identity, *filter(None, map(identify, pids))]


def send_all(identity: Identity, number: signal.Signals) -> list[Identity]:
    """Signal the process and its descendants, and say which they were."""
    return [member for member in family(identity) if send(member, number)]


def end(identities: Iterable[Identity], number: signal.Signals, timeout: float) -> list[Identity]:
    """Ask each of them to end and kill, with their descendants, those that do not within `timeout`: returned."""
    asked = [identity for identity in identities if send(identity, number)]
    everyone = [member for identity in asked for member in send_all(identity, signal.SIGCONT)]
    if until(lambda: not any(map(alive, everyone)), timeout):
        return []
    killed = [member for member in everyone if send(member, signal.SIGKILL)]
    until(lambda: not any(map(alive, killed)), _GRAVE)
    return killed


def until(condition: Callable[[], bool], timeout: float, interval: float = POLL) -> bool:
    """Wait for the condition; False when it did not come true within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval)
    return True


def spawn(program: Program) -> Identity:
    """Start it in a session of its own, so that it outlives us and our terminal."""
    child = _open(program, detached=True)
    _children[child.pid] = child
    return Identity(child.pid, _birth(child.pid) or "ended at once")


@contextmanager
def finishing(program: Program, told: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Start something that ends by itself, tell it this; killed, with its children, if the block is left before."""
    child = _open(program, detached=False)
    try:
        if child.stdin:
            with suppress(BrokenPipeError), child.stdin as line:  # it may end without listening
                line.write(told.encode())
        yield child
    finally:
        if identity := identify(child.pid):
            send_all(identity, signal.SIGKILL)
        child.wait()


def _open(program: Program, *, detached: bool) -> subprocess.Popen[bytes]:
    if program.log.exists() and program.log.stat().st_size > _LOG_LIMIT:
        program.log.replace(program.log.with_suffix(".old" + program.log.suffix))
    account = program.account
    inherited = (
        dict(os.environ) if program.inherits else {name: os.environ[name] for name in _NEEDED if name in os.environ}
    )
    with os.fdopen(os.open(program.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as log:
        return subprocess.Popen(
            program.argv,
            cwd=program.folder,
            env={**inherited, **program.env},
            umask=-1 if program.inherits else 0o077,
            stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=detached,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
