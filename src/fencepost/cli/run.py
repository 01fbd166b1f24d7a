"""`fencepost run`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.output import FormatOption, OutputFormat, emit_json, note, say
from fencepost.cli.pipelines import SpecOption, pipeline_spec

if TYPE_CHECKING:
    from fencepost.news import Listener

INTERRUPTED = 130


def run(
    spec: SpecOption = None,
    once: Annotated[bool, typer.Option("--once", help="Carry what is there now, then end.")] = False,
    standby: Annotated[
        bool, typer.Option("--standby", help="Begin only when no other run of the pipeline is alive.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="HOST:PORT", help="Serve Prometheus metrics there; :PORT is loopback."),
    ] = None,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Run the pipeline of this folder under its declared guarantee.

    Ctrl-C and SIGTERM finish the batch that is under way; a second Ctrl-C ends at once. Nothing is lost either way.
    Another run of the same pipeline takes over, and this one then ends with 4.
    """
    from fencepost.cli.run_output import RunOutput, texts
    from fencepost.news import News, Started
    from fencepost.pipeline import Pipeline

    as_json = output is OutputFormat.JSON
    listener = RunOutput(as_json)
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
    with _metrics(declared.name, metrics) as watched:
        pipeline = Pipeline(declared, listen=listen)
        summary = pipeline.run(once=once, standby=standby)
    listener.end()
    if as_json:
        counts = {"rows": summary.rows, "dead": summary.dead, "skipped": summary.skipped}
        emit_json({"event": "ended", **counts, "positions": texts(summary.positions)})
    else:
        batches = "1 batch" if summary.batches == 1 else f"{summary.batches:,} batches"
        aside = f", {summary.dead:,} {'record' if summary.dead == 1 else 'records'} put aside" if summary.dead else ""
        gone = f", {summary.skipped:,} offsets skipped that were gone" if summary.skipped else ""
        say(f"{summary.rows:,} rows landed in {batches}{aside}{gone}")
    if signal.SIGINT in signals:
        raise typer.Exit(INTERRUPTED)


@contextmanager
def _metrics(pipeline: str, where: str | None) -> Iterator[Listener]:
    """Who else hears the news."""
    from fencepost.news import unheard

    if where is None:
        yield unheard
        return
    from fencepost.errors import Fenced, Usage

    try:
        from fencepost.metrics import Metrics, served
    except ModuleNotFoundError as error:
        raise Usage(f"--metrics needs {error.name}", "pip install 'fencepost[metrics]'") from error
    metrics = Metrics(pipeline)
    with served(metrics, where):
        try:
            yield metrics
        except Fenced:
            metrics.fenced()
            raise
