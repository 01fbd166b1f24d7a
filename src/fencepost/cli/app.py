"""The tree of commands, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fencepost import __version__
from fencepost.cli import (
    audit,
    consume,
    demo,
    doctor,
    group,
    init,
    look,
    plan,
    positions,
    produce,
    receipt,
    run,
    stack,
    topic,
)
from fencepost.cli.output import note
from fencepost.errors import FencepostError

INTERRUPTED = 130


class Commands(TyperGroup):
    """The commands; typer itself would end an interrupted one without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            note("fencepost: interrupted")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="fencepost",
    cls=Commands,
    help="Carry events through Kafka into a sink under a declared delivery guarantee, and prove it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(stack.app, name="stack")
app.command()(stack.up)
app.command()(stack.down)
app.add_typer(topic.app, name="topic")
app.add_typer(group.app, name="group")
app.command()(demo.demo)
app.command()(plan.spec)
app.command()(init.init)
app.command()(plan.plan)
app.command()(run.run)
app.command()(look.status)
app.command()(look.peek)
app.command()(audit.audit)
app.command()(receipt.receipt)
app.add_typer(positions.app, name="positions")
app.command()(produce.produce)
app.command()(consume.consume)
app.command()(doctor.doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fencepost {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options that every command has."""


def main() -> None:
    """Run a command; every error that we know ends in one line and its own exit code."""
    try:
        app(standalone_mode=True)
    except FencepostError as error:
        note(f"fencepost: {error}")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(INTERRUPTED)
