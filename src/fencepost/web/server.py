"""Serving the page until Ctrl-C: on loopback, or elsewhere behind a password."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG

from fencepost.errors import Unreachable, Usage
from fencepost.machine import cache
from fencepost.machine.trust import require_facts
from fencepost.spec import PipelineSpec
from fencepost.web.safety import LOOPBACK_NAMES, Safety

PASSWORD_VARIABLE = "FENCEPOST_WEB_PASSWORD"  # noqa: S105 (the name of a variable)
SHORTEST_PASSWORD = 8
GRACE_SECONDS = 2


@dataclass(frozen=True)
class Serving:
    """Where, and who may."""

    host: str = "127.0.0.1"
    port: int = 9000
    allow_changes: bool = False
    names: Collection[str] = ()
    password: str | None = field(default=None, repr=False)
    ledger: str | None = field(default=None, repr=False)  # a connection string; may hold a password
    journals: tuple[Path, ...] = ()
    specs: tuple[PipelineSpec, ...] = field(default=(), repr=False)  # their options may hold passwords
    lab: Path | None = None

    def __post_init__(self) -> None:
        """Raises Usage for a host that others can reach, without a password."""
        if self.password is None and not is_loopback(self.host):
            raise Usage(
                f"--host {self.host} can be reached from elsewhere",
                f"give a password: in {PASSWORD_VARIABLE}, or by --password-file FILE",
            )
        if self.password is not None and len(self.password) < SHORTEST_PASSWORD:
            raise Usage("the password is too short", f"give at least {SHORTEST_PASSWORD} characters")

    @property
    def safety(self) -> Safety:
        return Safety({*self.names, self.host}, self.password, self.allow_changes)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in LOOPBACK_NAMES


def read_password(file: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The first line of the file, or the variable. Never an argument: those are seen by everybody on the machine."""
    if file is None:
        return environment.get(PASSWORD_VARIABLE) or None
    try:
        facts = file.stat()
        if not S_ISREG(facts.st_mode):
            raise Usage(f"{file} is no regular file", "give a text file with the password in it")
        require_facts(file, facts, "make it yours alone: chmod 600")
        if facts.st_mode & 0o077:
            raise Usage(f"others can read the password in {file}", f"chmod 600 {file}")
        return file.read_text(encoding="utf-8-sig").split("\n", 1)[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"the password file {file} cannot be read", "give a text file with the password in it") from error


def serve(kafka: Mapping[str, str], serving: Serving, ready: Callable[[str], None]) -> None:
    """Until it is interrupted. `ready` is called with the address once somebody can ask. Raises Usage, Unreachable."""
    try:
        import uvicorn

        from fencepost.web.answers import Answers
        from fencepost.web.app import application
        from fencepost.web.history import History
        from fencepost.web.live import Streams
        from fencepost.web.state import Beside, Connections, State
    except ModuleNotFoundError as error:
        raise Usage(f"the page needs {error.name}", "pip install 'fencepost[web]'") from error
    streams = Streams()
    history = History(cache.folder() / "web" / "history.sqlite")
    state = State(
        Connections(kafka), Answers(), history, Beside(serving.ledger, serving.journals, serving.specs, serving.lab)
    )
    app = application(state, serving.safety, streams)
    listening = _listening(serving.host, serving.port)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: object) -> None:
            streams.end()
            super().handle_exit(sig, frame)  # type: ignore[arg-type]

    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="on", ws="none",
        timeout_graceful_shutdown=GRACE_SECONDS, limit_concurrency=400, forwarded_allow_ips="",
    )  # fmt: skip
    with listening:
        ready(f"http://{_shown(serving.host)}:{listening.getsockname()[1]}/")
        Server(config).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(128)
    except OSError as error:
        raise Unreachable(f"{host}:{port} cannot be listened on: {error.strerror}", "choose another --port") from error
    return made


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
