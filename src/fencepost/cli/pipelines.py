"""Which pipeline a command is about: its file, completed by the local stack where it names no servers.

Or a stream of one's own, which has none: by its name and its sink.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.connection import (
    BootstrapOption,
    CommandConfigOption,
    Connection,
    SettingsOption,
    with_options,
)
from fencepost.errors import Unreachable, Usage
from fencepost.guarantee import Guarantee
from fencepost.spec import PipelineSpec, SourceSpec, find, load, own_stream

if TYPE_CHECKING:
    from fencepost.local import Stack

SpecOption = Annotated[
    Path | None,
    typer.Option("--spec", help="The pipeline file.", show_default="fencepost.yml here or above"),
]

_own = partial(typer.Option, rich_help_panel="A stream of your own, which has no file")
OwnStreamOption = Annotated[
    str | None, _own("--pipeline", metavar="NAME", help="Its name. --sink and the connection go with it.")
]
_SINK_HELP = "Its sink, as in a pipeline file: '{format: ..., options: {...}}'. ${NAME} is filled in."
_ITS_GUARANTEE = "Its guarantee, if its sink does not keep that."


@dataclass(frozen=True)
class Subject:
    """The pipeline that a command is about."""

    bootstrap_server: BootstrapOption = None
    command_config: CommandConfigOption = None
    settings: SettingsOption = None
    spec: SpecOption = None
    pipeline: OwnStreamOption = None
    sink: Annotated[str | None, _own("--sink", metavar="SINK", help=_SINK_HELP)] = None
    guarantee: Annotated[Guarantee | None, _own("--guarantee", help=_ITS_GUARANTEE)] = None

    def declared(self) -> PipelineSpec:
        """Raises Usage where the options say two things, or not enough."""
        connection = Connection(self.bootstrap_server, self.command_config, self.settings)
        if self.pipeline is not None:
            require_no_file(self.spec)
            return own_stream_spec(connection, self.pipeline, self.sink, self.guarantee)
        if self.sink is not None or self.guarantee is not None:
            raise Usage("--sink and --guarantee go with --pipeline", "remove them: the pipeline file says this")
        require_nothing_given(connection)
        return pipeline_spec(self.spec)


def about_pipeline(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options above in place of its parameter `subject`."""
    return with_options(command, "subject", Subject)


def require_nothing_given(connection: Connection) -> None:
    """Of the connection, which a pipeline file has: an option that nobody heeds would mislead."""
    for option in connection.given:
        raise Usage(f"{option} beside a pipeline file", "remove it: the file says where Kafka is, under kafka:")


def require_no_file(spec: Path | None) -> None:
    if spec is not None:
        raise Usage("--spec with --pipeline", "a stream of your own has no file: remove one of the two")


def own_stream_spec(connection: Connection, name: str, sink: str | None, guarantee: Guarantee | None) -> PipelineSpec:
    """What is known of a stream: what its ledger has. Raises Usage where there is nothing."""
    from fencepost.admin.stored import stored_state

    if sink is None:
        raise Usage("where does it write to?", "give --sink '{format: ..., options: {...}}', as in its script")
    spec = _with_dsn(own_stream(name, sink, connection.kafka_settings()))
    found = stored_state(spec)
    if not found.stored:
        raise Usage(
            f"no position is stored for {name!r} in this sink",
            "give the name and the sink of its script; its first batch stores them",
        )
    if guarantee is not None and found.guarantee not in (None, guarantee):
        raise Usage(f"{name!r} ran {found.guarantee}, as its sink says", "remove --guarantee")
    known = found.guarantee or guarantee
    if known is None:
        raise Usage(f"the sink does not keep the guarantee of {name!r}", "give --guarantee")
    source = SourceSpec.model_validate({"topics": sorted({at.topic for at in found.stored})})
    return spec.model_copy(update={"source": source, "guarantee": known})


def pipeline_spec(path: Path | None, offline: bool = False) -> PipelineSpec:
    """The pipeline file, with the local stack's addresses where it gives none."""
    spec = load(path or find())
    if offline:
        return spec
    if "bootstrap.servers" not in spec.kafka:
        spec = spec.model_copy(update={"kafka": {**spec.kafka, "bootstrap.servers": _local_servers()}})
    return _with_dsn(spec)


def database_spec(path: Path | None) -> PipelineSpec:
    """The same for a command that asks nothing of Kafka."""
    return _with_dsn(load(path or find()))


def _with_dsn(spec: PipelineSpec) -> PipelineSpec:
    options = spec.sink.options.completed(local_dsn)
    return spec.model_copy(update={"sink": spec.sink.model_copy(update={"options": options})})


def local_dsn() -> str:
    """Where PostgreSQL is when nothing says so: where libpq's own variables point, or the local stack's."""
    if libpq_knows():
        return ""
    return _stack(
        "nothing says where PostgreSQL is, and no local stack is running",
        "run `fencepost up`, or set sink.options.dsn in the pipeline file, or PGHOST in the environment",
    ).dsn


def libpq_knows() -> bool:
    """libpq's own variables say where PostgreSQL is."""
    return any(os.environ.get(name) for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE"))


def _local_servers() -> str:
    return _stack(
        "the pipeline file does not say where Kafka is, and no local stack is running",
        "run `fencepost up`, or set kafka: {bootstrap.servers: HOST:PORT}",
    ).bootstrap_servers


def _stack(missing: str, remedy: str) -> Stack:
    from fencepost.local import running

    stack = running()
    if stack is None:
        raise Unreachable(missing, remedy)
    return stack
