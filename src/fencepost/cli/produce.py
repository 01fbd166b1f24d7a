"""`fencepost produce`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.connection import Connection, connected
from fencepost.cli.output import FormatOption, OutputFormat, emit_json, note, say
from fencepost.errors import Unknown, Usage

if TYPE_CHECKING:
    from fencepost.producing.sending import Event


@connected
def produce(
    connection: Connection,
    topic: Annotated[str, typer.Option("--topic", help="Where to.")],
    count: Annotated[int | None, typer.Option("--count", min=0, help="Send this many numbered test orders.")] = None,
    file: Annotated[
        str | None, typer.Option("--file", help="Send each line of this file; - is standard input.")
    ] = None,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Send events with acks=all and say how many were acknowledged.

    Without --count and --file, each line of standard input is an event. On the local stack a missing topic is made.
    Ends with 1 when an event was refused, with 5 when one may or may not have arrived.
    """
    if count is not None and file is not None:
        raise Usage("--count and --file exclude each other", "give one of them")
    kafka = connection.kafka_settings()
    _make_topic(connection, topic)
    from fencepost.outcome import Outcome
    from fencepost.producing.sending import send

    with _events(count, file) as events:
        sent = send(kafka, topic, events)
    totals = {outcome.value: sent.outcomes[outcome] for outcome in (Outcome.ACKED, Outcome.REFUSED, Outcome.UNKNOWN)}
    if output is OutputFormat.JSON:
        emit_json({"topic": topic, **totals, "reason": sent.reason or None})
    else:
        say(f"{totals['acked']:,} events in {topic}, acknowledged by the in-sync replicas")
    if totals["unknown"]:
        raise Unknown(f"{totals['unknown']} events may or may not have arrived: {sent.reason}")
    if totals["refused"]:
        note(f"fencepost: {totals['refused']} events were refused: {sent.reason}")
        raise typer.Exit(1)


@contextmanager
def _events(count: int | None, file: str | None) -> Iterator[Iterator[Event]]:
    from fencepost.producing import sources

    if count is not None:
        yield sources.orders(count)
    elif file is None or file == "-":
        yield sources.lines(sys.stdin.buffer)
    else:
        try:
            with Path(file).open("rb") as content:
                yield sources.lines(content)
        except OSError as error:
            raise Usage(f"{file} cannot be read: {error.strerror}") from error


def _make_topic(connection: Connection, topic: str) -> None:
    """On a stack of one's own a topic is made when it is first written to; elsewhere that is somebody's decision."""
    from fencepost.cluster.topics import TopicRequest, create_topic

    cluster = connection.open()
    if topic in cluster.topic_names():
        return
    if connection.bootstrap_server or connection.command_config:
        raise Usage(f"there is no topic {topic} at {cluster.servers}", f"make it: fencepost topic create {topic}")
    create_topic(cluster, TopicRequest(topic))
    note(f"topic {topic} made: 3 partitions, replication 3, min in-sync 2")
