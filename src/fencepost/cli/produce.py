"""`fencepost produce`."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from fencepost.cli.connection import Connection, connected
from fencepost.cli.offsets import finite
from fencepost.cli.output import FormatOption, OutputFormat, note
from fencepost.errors import Usage
from fencepost.guarantee import Guarantee
from fencepost.producing.sources.layouts import Layout

if TYPE_CHECKING:
    import io

    from fencepost.producing.sources.lines import Reading
    from fencepost.producing.sources.source import Source

_source = partial(typer.Option, rich_help_panel="Source")
_numbered = partial(typer.Option, rich_help_panel="Numbered test events")


@connected
def produce(  # noqa: PLR0913  (a command's options are its parameters)
    *,
    connection: Connection,
    topic: Annotated[str, typer.Option(help="Topic to write to.")],
    guarantee: Annotated[
        Guarantee | None,
        typer.Option(help="The delivery guarantee, across restarts too: the next run resumes where this one stopped."),
    ] = None,
    acks: Annotated[
        Literal["leader", "quorum"] | None,
        typer.Option(help="Which replicas must acknowledge an event; only for at-least-once. Default: quorum."),
    ] = None,
    file: Annotated[
        str | None, _source(help="Send each line of this file, or of the files in this folder; - is standard input.")
    ] = None,
    layout: Annotated[
        Layout | None, _source("--input", help="Format of the lines. Default: by the file's suffix.")
    ] = None,
    key: Annotated[str | None, _source(metavar="FIELD", help="Field to use as the event's key.")] = None,
    errors: Annotated[
        Literal["stop", "skip"], _source(help="On a broken line or a refused event: stop, or skip and count it.")
    ] = "stop",
    name: Annotated[
        str | None, _source(help="Name under which the source's position is stored. Default: from its path.")
    ] = None,
    from_start: Annotated[
        bool,
        _source(
            "--from-start", help="Start from the beginning if no position is stored, even if the topic is not empty."
        ),
    ] = False,
    count: Annotated[int | None, _numbered(min=0, help="Send this many numbered test orders.")] = None,
    keys: Annotated[int, _numbered(min=1, help="Number of customers in the test orders.")] = 100,
    size: Annotated[int, _numbered(min=0, help="Pad each test order to this many bytes.")] = 0,
    rate: Annotated[float, typer.Option(min=0, callback=finite, help="Most events per second; 0 means no limit.")] = 0,
    batch: Annotated[
        int, typer.Option(min=1, help="Events per transaction, or between two stored positions.")
    ] = 200_000,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append each event's intent and outcome to this file."),
    ] = None,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Send events under a guarantee, and say what became of them.

    With --guarantee the source's position is stored in Kafka (exactly-once: in the events' own transaction). After
    kill -9 the same command resumes without loss or duplicates. Without it, each run sends everything, with
    acks=all, and --count creates new events each time. Without --count and --file, each line of standard input is an
    event. On the local stack a missing topic is created. Exits with 1 if an event was refused, with 5 if one may or may
    not have arrived.

    Example: fencepost produce --topic orders --guarantee exactly-once --file orders.jsonl --key customer
    """
    if count is not None and file is not None:
        raise Usage("--count and --file exclude each other", "give one of them")
    kafka = connection.kafka_settings()
    from fencepost.cli.produce_output import ProduceOutput
    from fencepost.producing.batches import Limits
    from fencepost.producing.resume import ProduceJob, Run
    from fencepost.producing.sources.lines import Reading
    from fencepost.rules.producer import Acks

    reading = Reading(layout, key, errors == "skip")
    series = (name or "") if guarantee else None
    source = _numbers(count, keys, size, series) if count is not None else _lines(file, reading)
    own_name = name or ("orders" if count is not None else _path_name(file))
    limits = Limits(records=batch, chunk=5_000 if source.fingerprint else 1, rate=rate)
    job = ProduceJob(
        topic,
        guarantee,
        own_name,
        acks=Acks(acks) if acks else None,
        from_start=from_start,
        journal=journal,
        limits=limits,
        skip_refused=errors == "skip",
    )
    _make_topic(connection, topic)
    ProduceOutput(output is OutputFormat.JSON, job, source, count).show(Run(kafka, job, source))


def _numbers(count: int, keys: int, size: int, series: str | None) -> Source:
    """`series`: the name under which the position is kept. None: nothing is, so these are new events each time."""
    from fencepost.producing.events import new_producer_id
    from fencepost.producing.sources.source import numbered_orders

    return numbered_orders(count, keys, size, new_producer_id() if series is None else series)


def _lines(file: str | None, reading: Reading) -> Source:
    from fencepost.producing.sources.files import Files
    from fencepost.producing.sources.piped import Piped

    if file is not None and file != "-":
        return Files(Path(file), reading)
    if sys.stdin is None:
        raise Usage("standard input is closed", "give --file FILE, or --count N")
    return Piped(cast("io.BufferedReader", sys.stdin.buffer), reading)


def _path_name(file: str | None) -> str:
    from fencepost.producing.resume import file_name

    return file_name(Path(file)) if file is not None and file != "-" else "stdin"


def _create_command(connection: Connection, topic: str) -> str:
    """For the same cluster. What -X gave may be secret, and is not shown."""
    given = {"--bootstrap-server": connection.bootstrap_server, "--command-config": connection.command_config}
    options = [f"{option} {shlex.quote(str(value))}" for option, value in given.items() if value]
    same = ", with the same -X" if connection.settings else ""
    return " ".join(["fencepost topic create", *options, "--", topic]) + same


def _make_topic(connection: Connection, topic: str) -> None:
    """On a stack of one's own a topic is made when it is first written to; elsewhere that is somebody's decision."""
    from fencepost.kafka.names import require_topic
    from fencepost.kafka.topics import TopicRequest, create_topic, is_known

    require_topic(topic)
    with connection.open() as cluster:
        if is_known(cluster, topic):
            return
        if connection.bootstrap_server or connection.command_config:
            remedy = f"create it: {_create_command(connection, topic)}"
            raise Usage(f"there is no topic {topic} at {cluster.servers}", remedy)
        create_topic(cluster, TopicRequest(topic))
    note(f"topic {topic} created: 3 partitions, replication 3, min in-sync 2")
