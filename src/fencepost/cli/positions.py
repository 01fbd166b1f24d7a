"""`fencepost positions`: where a pipeline is, and putting it elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.offsets import parse_start
from fencepost.cli.output import FormatOption, OutputFormat, emit_json, emit_table, note, say
from fencepost.cli.pipelines import SpecOption, Subject, about_pipeline, pipeline_spec
from fencepost.machine.counting import count

if TYPE_CHECKING:
    from fencepost.admin.positions import Repositioning
    from fencepost.spec import PipelineSpec

app = typer.Typer(help="Show, set or import the stored offsets of a pipeline.", no_args_is_help=True)


@app.command()
@about_pipeline
def show(subject: Subject, output: FormatOption = OutputFormat.TEXT) -> None:
    """Show the stored position of each partition: the next offset to read."""
    from fencepost.admin.stored import stored_state

    pipeline = subject.declared()
    stored = stored_state(pipeline).positions
    if output is OutputFormat.JSON:
        positions = [{"topic": topic, "partition": number, "position": at} for (topic, number), at in stored.items()]
        emit_json({"pipeline": pipeline.name, "positions": positions})
    else:
        emit_table(["topic", "partition", "position"], [[*place, at] for place, at in stored.items()])


@app.command("set")
@about_pipeline
def set_(
    subject: Subject,
    to: Annotated[
        str,
        typer.Option("--to", help="earliest, latest, a time with a zone (2026-01-31T12:00:00Z), or 0:120,1:7."),
    ],
    topic: Annotated[
        str | None, typer.Option("--topic", help="Only this topic. Needed for offsets when there are several.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Change the stored positions. Says how many records that skips or repeats, and asks first.

    Offsets (0:120,1:7) change the named partitions only.
    This is a takeover: a run of the pipeline in progress is fenced and exits with 4.
    """
    from fencepost.admin.positions import propose

    pipeline = subject.declared()
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
    """Continue from the offsets of a stopped consumer group or Spark query.

    A partition without an offset there keeps its position, or is read from its first record. Shows each change,
    and asks first.
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
        say_moves(proposal)
    if not yes and not typer.confirm("set these positions?", err=True):
        raise typer.Exit(1)
    carry_out(pipeline, proposal)
    if output is OutputFormat.JSON:
        positions = {str(move.partition): move.after for move in proposal.moves}
        recreated = {"recreated": proposal.recreated} if proposal.recreated else {}
        emit_json({"positions": positions, "skipped": proposal.skipped, "repeated": proposal.repeated, **recreated})
    else:
        say("set")


def say_moves(proposal: Repositioning) -> None:
    """What is going to change, for people."""
    rows = [[move.partition, move.before, move.after, move.skipped, move.repeated] for move in proposal.moves]
    emit_table(["partition", "position", "becomes", "skips", "repeats"], rows)
    say()
    for topic in proposal.recreated:
        say(
            f"{topic} was deleted and created again: the old positions refer to other records; none of the new ones "
            "was read yet"
        )
    say(f"{count(proposal.skipped, 'offset')} skipped, {proposal.repeated:,} read again{_last_batch(proposal)}")


def _last_batch(proposal: Repositioning) -> str:
    if not proposal.remembers:
        return ""
    last = proposal.last_batch
    return (
        f"; the last batch landed {(datetime.now(UTC) - last).total_seconds():,.0f} s ago" if last else "; no batch yet"
    )
