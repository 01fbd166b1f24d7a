"""Which pipeline a command is about: its file, completed by the local stack where it names no servers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.errors import Unreachable
from fencepost.spec import PipelineSpec, find, load

if TYPE_CHECKING:
    from fencepost.local import Stack

SpecOption = Annotated[
    Path | None,
    typer.Option("--spec", help="The pipeline file.", show_default="fencepost.yml here or above"),
]


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
