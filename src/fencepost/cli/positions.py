"""`fencepost positions`: where a pipeline is, and putting it elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.offsets import parse_start
from fencepost.cli.output import FormatOption, OutputFormat, emit_json, emit_table, note, say
from fencepost.cli.pipelines import SpecOption, pipeline_spec
from fencepost.machine.counting import count

if TYPE_CHECKING:
    from fencepost.admin.positions import Repositioning
    from fencepost.spec import PipelineSpec

app = typer.Typer(help="Show where a pipeline is, or put it elsewhere.", no_args_is_help=True)


@app.command()
def show(spec: SpecOption = None, output: FormatOption = OutputFormat.TEXT) -> None:
    """Show the stored position of each partition: the next offset to be read."""
    from fencepost.admin.stored import stored_state

    pipeline = pipeline_spec(spec)
    stored = stored_state(pipeline).positions
    if output is OutputFormat.JSON:
        positions = [{"topic": topic, "partition": number, "position": at} for (topic, number), at in stored.items()]
        emit_json({"pipeline": pipeline.name, "positions": positions})
    else:
        emit_table(["topic", "partition", "position"], [[*place, at] for place, at in stored.items()])


@app.command("set")
def set_(
    to: Annotated[
        str,
        typer.Option("--to", help="earliest, latest, a time with a zone (2026-01-31T12:00:00Z), or 0:120,1:7."),
    ],
    topic: Annotated[str | None, typer.Option("--topic", help="Of this topic only; offsets are of one.")] = None,
    spec: SpecOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Put the positions elsewhere. Says how many records that skips or repeats, and asks.

    Offsets (0:120,1:7) move the partitions that they name; the others stay where they are.
    It takes over: a run of the pipeline that is under way ends with 4.
    """
    from fencepost.admin.positions import propose

    pipeline = pipeline_spec(spec)
    _move(pipeline, propose(pipeline, parse_start(to, "--to"), topic), yes, output)


@app.command("import")
def import_(
    origin: Annotated[
        str, typer.Option("--from", help="group:NAME, or checkpoint:FOLDER of a Spark query.", metavar="ORIGIN")
    ],
    spec: SpecOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Go on where a consumer group or a Spark query ended, which must have been stopped.

    A partition of which nothing is known there stays where it is, or is read from its first record. Shows what becomes
    of each, and asks.
    """
    from fencepost.admin.import_positions import find
    from fencepost.admin.positions import propose

    pipeline = pipeline_spec(spec)
    found = find(pipeline, origin)
    if found.warning:
        note(f"warning: {found.warning}")
    _move(pipeline, propose(pipeline, found.positions, complete=False), yes, output)


def _move(pipeline: PipelineSpec, proposal: Repositioning, yes: bool, output: OutputFormat) -> None:
    from fencepost.admin.positions import carry_out

    if output is OutputFormat.TEXT:
        _say(proposal)
    if not yes and not typer.confirm("set these positions?", err=True):
        raise typer.Exit(1)
    carry_out(pipeline, proposal)
    if output is OutputFormat.JSON:
        positions = {str(move.partition): move.after for move in proposal.moves}
        anew = {"made_anew": proposal.made_anew} if proposal.made_anew else {}
        emit_json({"positions": positions, "skipped": proposal.skipped, "repeated": proposal.repeated, **anew})
    else:
        say("set")


def _say(proposal: Repositioning) -> None:
    rows = [[move.partition, move.before, move.after, move.skipped, move.repeated] for move in proposal.moves]
    emit_table(["partition", "position", "becomes", "skips", "repeats"], rows)
    say()
    for topic in proposal.made_anew:
        say(
            f"{topic} was deleted and made anew: the old positions are of other records, and none of these was read yet"
        )
    say(f"{count(proposal.skipped, 'offset')} skipped, {proposal.repeated:,} read again{_last_batch(proposal)}")


def _last_batch(proposal: Repositioning) -> str:
    if not proposal.remembers:
        return ""
    last = proposal.last_batch
    return (
        f"; the last batch landed {(datetime.now(UTC) - last).total_seconds():,.0f} s ago" if last else "; no batch yet"
    )
