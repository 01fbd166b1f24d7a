"""`fencepost receipt`."""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.cli.offsets import finite
from fencepost.cli.output import FormatOption, OutputFormat, emit_json, say
from fencepost.cli.pipelines import Subject, about_pipeline
from fencepost.errors import Usage
from fencepost.machine.counting import count


@about_pipeline
def receipt(  # noqa: PLR0913, PLR0917 (each is an option of the command)
    subject: Subject,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Topic of the event; needed if the pipeline reads several.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Where the event is.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", min=0, help="Where the event is.")] = None,
    id_: Annotated[
        str | None, typer.Option("--id", help="Id of the event, instead. Reads the topics to find it.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Look up its row too.")] = False,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, callback=finite, help="Wait up to this many seconds.")
    ] = 0,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Say what happened to one event: processed, skipped or waiting. Uses the stored position, without a scan.

    With --check: landed, dead, filtered or gone. Exits with 0; with 1 if it is skipped, dead or gone; with 5 while it
    waits, or if that is not known.
    """
    from fencepost.audit.fates import Fate
    from fencepost.audit.receipt import find_event
    from fencepost.audit.receipt import receipt as ask

    pipeline = subject.declared()
    if id_ is not None:
        (topic, partition), offset = find_event(pipeline, id_, topic)
    if partition is None or offset is None:
        raise Usage("which event?", "give --partition and --offset, or --id")
    found = ask(pipeline, partition, offset, topic, check=check, wait=wait)
    if output is OutputFormat.JSON:
        emit_json(found.as_json())
    else:
        behind = f": {count(found.behind, 'offset')} to go" if found.fate is Fate.WAITING else ""
        note = f" ({found.note})" if found.note else ""
        say(f"{found.partition} {found.offset}: {found.fate}{behind}{note}")
    if found.fate in (Fate.DEAD, Fate.GONE, Fate.SKIPPED):
        raise typer.Exit(1)
    if found.fate in (Fate.WAITING, Fate.UNKNOWN):
        raise typer.Exit(5)
