"""`fencepost demo`."""

from __future__ import annotations

import typer

from fencepost.cli.output import FormatOption, OutputFormat, emit_json, note, say


def demo(output: FormatOption = OutputFormat.TEXT) -> None:
    """Run the demo on a temporary stack of its own, and remove that afterwards."""
    from fencepost.demo.story import tell_story
    from fencepost.local.interrupts import terminating

    with terminating():  # so that nothing is left behind when it is asked to end
        verdict = tell_story(say if output is OutputFormat.TEXT else note)
    if output is OutputFormat.JSON:
        emit_json(verdict.as_json())
    if not verdict.holds:
        raise typer.Exit(1)
