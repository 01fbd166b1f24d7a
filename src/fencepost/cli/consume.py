"""`fencepost consume`."""

from __future__ import annotations

import base64
import math
import re
import signal
import sys
from dataclasses import asdict
from threading import Event as Flag
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fencepost.cli.connection import Connection, connected
from fencepost.cli.offsets import parse_start
from fencepost.cli.output import INTERRUPTED, emit_json, note, say
from fencepost.cli.pipelines import local_dsn
from fencepost.cli.run import end_with
from fencepost.guarantee import Guarantee
from fencepost.machine.counting import count

if TYPE_CHECKING:
    from fencepost.engines.listener import News, NotDrained
    from fencepost.engines.python.events import Event
    from fencepost.engines.python.settings import ConsumerSettings


@connected
def consume(  # noqa: PLR0913, PLR0917 (each is an option of the command)
    connection: Connection,
    topic: Annotated[str, typer.Option(help="Topic to read.")],
    group: Annotated[str, typer.Option(help="Consumer group whose offsets are used.")],
    guarantee: Annotated[Guarantee, typer.Option(help="The delivery guarantee.")] = Guarantee.AT_LEAST_ONCE,
    handler: Annotated[
        str | None,
        typer.Option(help="module:function or file.py:function; called with a list of events. Default: print them."),
    ] = None,
    commit: Annotated[Literal["sync", "async", "auto"], typer.Option(help="How offsets are committed.")] = "sync",
    per: Annotated[str, typer.Option(help="Commit after each record, each batch, or every so many seconds.")] = "batch",
    start: Annotated[
        str,
        typer.Option(help="Where to start when the group has no offset: earliest, latest, committed, a time, 0:120."),
    ] = "earliest",
    table: Annotated[str | None, typer.Option(help="Write the events, unchanged, to this PostgreSQL table.")] = None,
    to_topic: Annotated[
        list[str] | None,
        typer.Option(help="Write the events, or what the handler returns, to this topic. May be repeated."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Most events per batch.")] = 500,
    once: Annotated[bool, typer.Option("--once", help="Exit when everything is read.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what the guarantee covers and what it does not, and exit.")
    ] = False,
) -> None:
    """Read a topic as a member of a consumer group, under a guarantee.

    Events are printed as JSON lines, or go to a handler, into a table or to other topics. Exactly-once needs
    --table, --to-topic, or a handler with two parameters, (events, tx): what it writes through tx, a
    cursor of PostgreSQL's (where libpq's variables point, or the local stack), is committed together with the position.
    Ctrl-C finishes the batch.
    """
    from fencepost.engines.python.commits import Commit
    from fencepost.engines.python.consumer import Consumption
    from fencepost.engines.python.explaining import coverage
    from fencepost.engines.python.settings import COMMITTED, ConsumerSettings, Per
    from fencepost.rows.functions import FunctionName
    from fencepost.run.consume import run_handler

    settings = ConsumerSettings(
        connection.kafka_settings(),
        topic,
        group,
        guarantee,
        Commit(commit),
        Per(per) if per in list(Per) else _seconds(per),
        start if start == COMMITTED else parse_start(start, "--start"),
        batch,
    )
    topics = tuple(to_topic or ())
    if plan:
        in_transaction = guarantee is Guarantee.EXACTLY_ONCE and handler is not None and not topics
        for sentence in coverage(settings, in_transaction, topics, handler is not None):
            say(sentence)
        return
    stop = Flag()
    interrupted = _stopping(stop)
    if table or (topics and not handler):
        left = _carry(settings, table, topics, handler, stop, once)
    else:
        call = FunctionName(handler).load() if handler else _print
        dsn = local_dsn() if guarantee is Guarantee.EXACTLY_ONCE and handler and not topics else None
        done = run_handler(Consumption(settings, call, dsn, stop=stop, to_topics=topics), once, _listen)
        note(_counted(done.rows, done.batches))
        left = done.left
    end_with(interrupted(), left)


def _counted(events: int, batches: int) -> str:
    return f"{count(events, 'event')} in {count(batches, 'batch', 'batches')}"


def _carry(
    settings: ConsumerSettings, table: str | None, topics: tuple[str, ...], handler: str | None, stop: Flag, once: bool
) -> NotDrained | None:
    """Events as they are: a pipeline of the Python engine, without a file."""
    from fencepost.cli.run_output import RunOutput
    from fencepost.errors import FencepostError, Usage
    from fencepost.run.pipeline import Pipeline

    if handler or (table and topics):
        raise Usage("--table takes events as they are, and alone", "leave out --handler and --to-topic")
    declared = {
        "name": settings.group,
        "guarantee": settings.guarantee,
        "engine": "python",
        "kafka": dict(settings.kafka),
        "source": {"topic": settings.topic, "start": settings.start},
        "sink": _sink(table, topics),
    }
    output = RunOutput(as_json=False)
    try:
        summary = Pipeline(declared, output, stop=stop).run(once)
    except FencepostError as error:
        error.remedy = _with_a_file(settings.group, error.remedy)
        raise
    output.end()
    note(_counted(summary.rows, summary.batches))
    return summary.left


def _sink(table: str | None, topics: tuple[str, ...]) -> dict[str, Any]:
    """A table of the database whose transactions handlers get, or topics."""
    from fencepost.sinks import registry
    from fencepost.sinks.handlers import RunsHandlers, TakesOutputs
    from fencepost.sinks.kind import GoesByName, require_able

    format_, kind = registry.able(RunsHandlers) if table else registry.able(TakesOutputs)
    named = require_able(kind, GoesByName, format_, "be named here").named(*([table] if table else topics))
    return {"format": format_, "options": named.completed(local_dsn).model_dump(exclude_unset=True)}


def _with_a_file(group: str, remedy: str) -> str:
    """What a remedy asks of the pipeline file, which is not there: in the folder there may be another's."""
    file = f"with a pipeline file of name {group} and this sink, "
    return re.sub(r"`?fencepost positions set|set on_error", lambda found: file + found[0], remedy)


def _print(events: list[Event]) -> None:
    for event in events:
        shown: dict[str, Any] = asdict(event) | {"key": _text(event.key), "value": _text(event.value)}
        shown["headers"] = _headers(event)
        emit_json(shown)


def _headers(event: Event) -> dict[str, Any]:
    """By name; of a name that comes several times a list, in order."""
    found: dict[str, list[Any]] = {}
    for name, value in event.headers:
        found.setdefault(name, []).append(_text(value))
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _text(value: bytes | None) -> str | dict[str, str] | None:
    """As text where it is text."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _seconds(text: str) -> float:
    from fencepost.errors import Usage

    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise Usage(f"--per {text}", "write record, batch, or a number of seconds")
    return seconds


def _listen(news: News) -> None:
    """What it waits for, and what it leaves to others; not each batch: the events may be on the terminal."""
    from fencepost.engines.listener import NotDrained, Waiting

    match news:
        case Waiting():
            note(news.trouble if news.seconds is None else f"{news.trouble}; trying again in {news.seconds:.0f} s")
        case NotDrained():
            note(f"not drained: {news}: {news.remedy}")


def _stopping(stop: Flag) -> Any:
    """Ctrl-C and SIGTERM finish the batch; a second Ctrl-C ends at once. Returns whether it was Ctrl-C."""
    came: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        stop.set()
        if came.count(signal.SIGINT) > 1:
            sys.exit(INTERRUPTED)

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)
    return lambda: signal.SIGINT in came
