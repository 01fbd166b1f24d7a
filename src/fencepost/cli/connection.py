"""The options of every command that talks to Kafka, and the cluster that they lead to."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from fencepost.cli.stack import HomeOption
from fencepost.errors import Unreachable, Usage

if TYPE_CHECKING:
    from fencepost.kafka.client import Cluster

_connection = functools.partial(typer.Option, rich_help_panel="Connection")

BootstrapOption = Annotated[
    str | None, _connection(metavar="HOST:PORT,...", help="Bootstrap servers. Default: the local stack.")
]
CommandConfigOption = Annotated[
    Path | None, _connection(metavar="FILE", help="Kafka client properties file, for example with security settings.")
]
SettingsOption = Annotated[
    list[str] | None,
    _connection("-X", metavar="KEY=VALUE", help="One Kafka client setting; overrides the file. May be repeated."),
]


@dataclass(frozen=True)
class Connection:
    """Which cluster, and how to authenticate. Default: the local stack."""

    bootstrap_server: BootstrapOption = None
    command_config: CommandConfigOption = None
    settings: SettingsOption = None
    home: HomeOption = None

    @property
    def given(self) -> list[str]:
        """The options of it that were used, but for the stack's folder, which the environment may name."""
        named = {"--bootstrap-server": self.bootstrap_server, "--command-config": self.command_config}
        return [option for option, value in {**named, "-X": self.settings}.items() if value]

    def kafka_settings(self) -> dict[str, str]:
        """Kafka's settings under Kafka's names: the file's, then each -X, then --bootstrap-server."""
        from fencepost.kafka.config.properties import read_properties

        settings = read_properties(self.command_config) if self.command_config else {}
        settings |= pairs(self.settings or [], "-X")
        if self.bootstrap_server is not None:
            settings["bootstrap.servers"] = self.bootstrap_server
        if "bootstrap.servers" not in settings:
            settings["bootstrap.servers"] = self._local_servers()
        return settings

    def open(self) -> Cluster:
        """Connect. Raises Unreachable when no broker answers, or no local stack runs where one is needed."""
        settings = self.kafka_settings()
        from fencepost.kafka.client import Cluster

        return Cluster(settings)

    def _local_servers(self) -> str:
        from fencepost.local import running

        stack = running(self.home)
        if stack is None:
            raise Unreachable("no local stack is running", "run `fencepost up`, or give --bootstrap-server")
        return stack.bootstrap_servers


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options above in place of its parameter `connection`."""
    return with_options(command, "connection", Connection)


def with_options(command: Callable[..., None], name: str, kind: type[Any]) -> Callable[..., None]:
    """Give a command the fields of `kind` as options, in place of its parameter of that name."""
    own = inspect.signature(command, eval_str=True)
    hints = get_type_hints(kind, include_extras=True)
    shared = [
        inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hints[field])
        for field in inspect.signature(kind).parameters
    ]

    @functools.wraps(command)
    def run(**values: object) -> None:
        options = {parameter.name: values.pop(parameter.name) for parameter in shared}
        command(**{name: kind(**options)}, **values)

    kept = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in own.parameters.values()
        if parameter.name != name
    ]
    run.__signature__ = own.replace(parameters=kept + shared)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in kept + shared}
    return run


def pairs(texts: list[str], option: str) -> dict[str, str]:
    """The key=value arguments of an option that may be repeated."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise Usage(f"{option} {key}", f"write {option} key=value")
        found[key.strip()] = value
    return found
