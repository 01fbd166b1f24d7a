"""`fencepost state`: what a pipeline remembers, built anew."""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.cli.offsets import parse_start
from fencepost.cli.output import FormatOption, OutputFormat, emit_json, say
from fencepost.cli.pipelines import SpecOption, pipeline_spec
from fencepost.cli.positions import say_moves

app = typer.Typer(help="Build the state of a pipeline with a checkpoint anew.", no_args_is_help=True)


@app.callback()
def state() -> None:
    """A group, though it has one command for now."""


@app.command()
def rebuild(
    to: Annotated[
        str,
        typer.Option("--to", help="earliest, latest, a time with a zone (2026-01-31T12:00:00Z), or 0:120,1:7."),
    ],
    spec: SpecOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Begin with an empty state at a named position. Says what is read again, and asks first.

    The table must be empty: TRUNCATE it, or name another one in the pipeline file. The old checkpoint is put aside.
    This is a takeover: a run of the pipeline in progress is fenced and exits with 4.
    """
    from fencepost.admin.rebuilding import propose_rebuilding
    from fencepost.admin.rebuilding import rebuild as carry_out

    pipeline = pipeline_spec(spec)
    proposal = propose_rebuilding(pipeline, parse_start(to, "--to"))
    if output is OutputFormat.TEXT:
        say_moves(proposal)
        say("groups that began before these positions will lack what came before them")
    if not yes and not typer.confirm("begin there with an empty state?", err=True):
        raise typer.Exit(1)
    aside = carry_out(pipeline, proposal)
    if output is OutputFormat.JSON:
        positions = {str(move.partition): move.after for move in proposal.moves}
        emit_json({"positions": positions, "repeated": proposal.repeated, "aside": str(aside) if aside else None})
    else:
        say(f"set; the old checkpoint is in {aside}" if aside else "set")
