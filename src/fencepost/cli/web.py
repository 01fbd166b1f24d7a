"""`fencepost web`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.connection import Connection, connected
from fencepost.cli.output import FormatOption, OutputFormat, emit_json, say
from fencepost.errors import Usage

if TYPE_CHECKING:
    from fencepost.spec import PipelineSpec


@connected
def web(  # noqa: PLR0913 (each is an option of the command)
    connection: Connection,
    *,
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Port; 0 takes any that is free.")] = 9000,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on. Any but loopback needs a password.")
    ] = "127.0.0.1",
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Let the page abort hanging transactions. Else it only looks.")
    ] = False,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option("--allowed-host", metavar="NAME", help="A name under which browsers may ask. May be repeated."),
    ] = None,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file", metavar="FILE", help="The password is its first line. Else FENCEPOST_WEB_PASSWORD."
        ),
    ] = None,
    dsn: Annotated[
        str | None,
        typer.Option(
            "--dsn",
            envvar="FENCEPOST_WEB_DSN",
            show_envvar=False,
            show_default="the local stack's",
            help="PostgreSQL with the ledger of pipelines. Its password goes into a passfile or FENCEPOST_WEB_DSN.",
        ),
    ] = None,
    journal: Annotated[
        list[Path] | None,
        typer.Option(
            "--journal", metavar="FILE", help="A producer's journal, for the way of an event. May be repeated."
        ),
    ] = None,
    spec: Annotated[
        list[Path] | None,
        typer.Option(
            "--spec",
            metavar="FILE",
            help="A pipeline's file: an event's way then shows its row, or why it is a dead letter. May be repeated.",
        ),
    ] = None,
    lab: Annotated[
        Path,
        typer.Option("--lab", metavar="DIR", envvar="FENCEPOST_LAB_HOME", help="The runs of `fencepost lab`."),
    ] = Path("fencepost-lab"),
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Serve a page to look at brokers, topics, messages, groups, transactions and pipelines, until Ctrl-C.

    It listens on this machine only, and changes nothing. The same as JSON is described at /api/openapi.json.

    Example: fencepost web --port 9000 --bootstrap-server broker1:9092 --command-config client.properties
    """
    from fencepost.web.server import Serving, read_password, serve

    _require_no_password(dsn)
    password = read_password(password_file)
    serving = Serving(
        host,
        port,
        allow_changes,
        tuple(allowed_host or ()),
        password,
        dsn or _ledger(connection),
        tuple(journal or ()),
        _declared(spec or (), connection),
        lab,
    )

    def ready(address: str) -> None:
        if output is OutputFormat.JSON:
            emit_json({"address": address, "changes": allow_changes})
        else:
            say(f"{address} ({'changes allowed' if allow_changes else 'read-only'}); Ctrl-C ends it")

    serve(connection.kafka_settings(), serving, ready)


def _declared(files: Sequence[Path], connection: Connection) -> tuple[PipelineSpec, ...]:
    """The pipelines of these files, as far as they read the cluster that the page shows."""
    from fencepost.cli.pipelines import database_spec

    kafka = connection.kafka_settings()
    specs = [database_spec(file).model_copy(update={"kafka": kafka}) for file in files]
    if twice := [spec.name for at, spec in enumerate(specs) if spec.name in {one.name for one in specs[:at]}]:
        raise Usage(f"two files declare the pipeline {twice[0]!r}", "name one of them")
    return tuple(specs)


def _require_no_password(dsn: str | None) -> None:
    """Of an option: everybody on the machine sees those."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    if not dsn or dsn == os.environ.get("FENCEPOST_WEB_DSN"):
        return
    try:
        given = conninfo_to_dict(dsn)
    except ProgrammingError as error:
        raise Usage("--dsn is no connection string of PostgreSQL's", "write postgresql://host/db") from error
    if given.get("password"):
        remedy = "put the password into libpq's passfile, or the whole of it into FENCEPOST_WEB_DSN"
        raise Usage("everybody on this machine sees the password in --dsn", remedy)


def _ledger(connection: Connection) -> str | None:
    """Where libpq's own variables point, or the local stack's; None: nobody said."""
    from fencepost.cli.pipelines import libpq_knows
    from fencepost.local import running

    if libpq_knows():
        return ""
    if connection.bootstrap_server or connection.command_config:
        return None
    stack = running(connection.home)
    return stack.dsn if stack else None
