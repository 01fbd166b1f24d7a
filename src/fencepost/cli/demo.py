"""`fencepost demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.cli.output import FormatOption, OutputFormat, emit_json, note, say


def demo(
    sink: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="Where events go, as sink.format names it.", show_default=False)
    ] = None,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Run the demo on a temporary stack of its own, and remove that afterwards.

    Example: fencepost demo --sink delta
    """
    from fencepost.demo.story import tell_story
    from fencepost.local.interrupts import terminating

    with terminating():  # so that nothing is left behind when it is asked to end
        verdict = tell_story(say if output is OutputFormat.TEXT else note, sink=sink)
    if output is OutputFormat.JSON:
        emit_json(verdict.as_json())
    if not verdict.holds:
        raise typer.Exit(1)
