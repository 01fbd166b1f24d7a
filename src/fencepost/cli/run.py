"""`fencepost run`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.output import INTERRUPTED, FormatOption, OutputFormat, emit_json, note, say
from fencepost.cli.pipelines import SpecOption, pipeline_spec
from fencepost.machine.counting import count
from fencepost.machine.footprint import keep_small

if TYPE_CHECKING:
    from fencepost.engines.listener import Listener, NotDrained
    from fencepost.run.loop import Summary

NOT_DRAINED = 3  # others hold what is left, and do not answer for it


def run(
    spec: SpecOption = None,
    once: Annotated[bool, typer.Option("--once", help="Process what is there now, then exit.")] = False,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait as a standby until no other run of the pipeline is alive.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics", metavar="HOST:PORT", help="Serve Prometheus metrics on this address; :PORT means loopback."
        ),
    ] = None,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Run the pipeline of this folder under its declared guarantee.

    Ctrl-C and SIGTERM finish the current batch; a second Ctrl-C exits at once. Nothing is lost either way.
    If another run of the same pipeline takes over, this one exits with 4. With --once and engine: python it exits
    with 3 if partitions of other group members still have lag that no member was seen to process.
    """
    from fencepost.cli.run_output import RunOutput
    from fencepost.engines.listener import News, Started
    from fencepost.run.pipeline import Pipeline
    from fencepost.spec import EngineName

    listener = RunOutput(output is OutputFormat.JSON)
    signals: list[int] = []

    def asked(number: int, _frame: FrameType | None) -> None:
        if signal.SIGINT in signals and number == signal.SIGINT:
            os._exit(INTERRUPTED)  # at once: the fence makes that safe
        signals.append(number)
        pipeline.stop()
        listener.end()  # the line that moves ends here
        note("finishing the batch" + ("; Ctrl-C again ends at once" if number == signal.SIGINT else ""))

    def listen(news: News) -> None:
        if isinstance(news, Started):  # Spark has put its own handlers in place by now
            signal.signal(signal.SIGINT, asked)
            signal.signal(signal.SIGTERM, asked)
        listener(news)
        watched(news)

    declared = pipeline_spec(spec)
    if declared.engine is EngineName.PYTHON and declared.transform is None:  # a transform may want pandas
        keep_small()
    with _metrics(declared.name, metrics) as watched:
        pipeline = Pipeline(declared, listen=listen)
        summary = pipeline.run(once=once, standby=standby)
    listener.end()
    _show(summary, output)
    end_with(signal.SIGINT in signals, summary.left)


def _show(summary: Summary, output: OutputFormat) -> None:
    from fencepost.cli.run_output import texts

    if output is OutputFormat.JSON:
        counts = {"rows": summary.rows, "dead": summary.dead, "skipped": summary.skipped}
        left = texts(summary.left.offsets) if summary.left else {}
        emit_json({"event": "ended", **counts, "left": left, "positions": texts(summary.positions)})
        return
    batches = count(summary.batches, "batch", "batches")
    aside = f", {count(summary.dead, 'record')} dead-lettered" if summary.dead else ""
    gone = f", {count(summary.skipped, 'offset')} skipped (deleted before they were read)" if summary.skipped else ""
    say(f"{count(summary.rows, 'row')} landed in {batches}{aside}{gone}")


def end_with(interrupted: bool, left: NotDrained | None) -> None:
    """The exit code of a run that ended well, or was asked to end."""
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if left is not None and not left.moving:
        raise typer.Exit(NOT_DRAINED)


@contextmanager
def _metrics(pipeline: str, where: str | None) -> Iterator[Listener]:
    """Who else hears the news."""
    from fencepost.engines.listener import unheard

    if where is None:
        yield unheard
        return
    from fencepost.errors import Fenced, Usage

    try:
        from fencepost.run.metrics import Metrics, served
    except ModuleNotFoundError as error:
        raise Usage(f"--metrics needs {error.name}", "pip install 'fencepost[metrics]'") from error
    metrics = Metrics(pipeline)
    with served(metrics, where):
        try:
            yield metrics
        except Fenced:
            metrics.fenced()
            raise
