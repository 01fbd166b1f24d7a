"""`fencepost topic`: create, list, describe and delete topics."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.connection import Connection, connected, pairs
from fencepost.cli.naming import named
from fencepost.cli.output import FormatOption, OutputFormat, emit_json, emit_table, say
from fencepost.errors import Usage
from fencepost.machine.counting import count
from fencepost.machine.printable import visible

if TYPE_CHECKING:
    from fencepost.kafka.topics import TopicDescription

app = typer.Typer(
    help="Create, list, describe and delete topics, on the local stack or any other cluster.",
    no_args_is_help=True,
)


@app.command("create")
@connected
@named("topic")
def create(  # noqa: PLR0913  (a command's options are its parameters)
    topic: str,
    *,
    connection: Connection,
    partitions: Annotated[int, typer.Option(min=1, help="Number of partitions.")] = 3,
    replication_factor: Annotated[int, typer.Option(min=1, help="Replication factor.")] = 3,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A topic setting, under Kafka's name. May be repeated."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic exists already.")
    ] = False,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Create a topic, and wait until every partition has a leader and all replicas are in sync.

    The default is three replicas and min.insync.replicas=2.

    Example: fencepost topic create orders --partitions 6 --config retention.ms=86400000
    """
    settings = pairs(config or [], "--config")
    with connection.open() as cluster:
        from fencepost.kafka.errors import Existing
        from fencepost.kafka.topics import TopicRequest, create_topic, describe_topic

        created = True
        try:
            create_topic(cluster, TopicRequest(topic, partitions, replication_factor, settings))
        except Existing:
            if not if_not_exists:
                raise
            created = False
        made = describe_topic(cluster, topic)
    if output is OutputFormat.JSON:
        emit_json({"created": created, **asdict(made)})
    else:
        say(f"{'made' if created else 'there is already'} {_headline(made)}")


@app.command("list")
@connected
def list_(
    connection: Connection,
    exclude_internal: Annotated[bool, typer.Option("--exclude-internal", help="Hide Kafka's internal topics.")] = False,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """List the topics.

    Example: fencepost topic list --bootstrap-server broker1:9092 --command-config client.properties
    """
    with connection.open() as cluster:
        from fencepost.kafka.topics import list_topics

        topics = [one for one in list_topics(cluster) if not (exclude_internal and one.internal)]
    if output is OutputFormat.JSON:
        emit_json({"topics": [asdict(one) for one in topics]})
        return
    columns = ["TOPIC", "PARTITIONS", "REPLICAS", "UNDER-REPLICATED", "TOPIC ID"]
    emit_table(
        columns,
        [[t.topic, t.partitions, t.replication_factor, t.under_replicated, t.topic_id] for t in topics],
    )


@app.command("describe")
@connected
@named("topic")
def describe(topic: str, connection: Connection, output: FormatOption = OutputFormat.TEXT) -> None:
    """Show a topic: its id, and the replicas and offsets of each partition.

    FIRST is the oldest offset, END the next one to be written, STABLE the last stable offset: where readers of
    committed records stop, below END while a transaction is open.

    Example: fencepost topic describe orders
    """
    with connection.open() as cluster:
        from fencepost.kafka.topics import describe_topic

        found = describe_topic(cluster, topic)
    if output is OutputFormat.JSON:
        emit_json(asdict(found))
        return
    say(_headline(found))
    emit_table(
        ["PARTITION", "LEADER", "REPLICAS", "IN SYNC", "FIRST", "END", "STABLE"],
        [
            [
                one.partition,
                one.leader,
                _ids(one.replicas),
                _ids(one.in_sync),
                one.first_offset,
                one.end_offset,
                one.last_stable_offset,
            ]
            for one in found.partitions
        ],
    )


@app.command("delete")
@connected
@named("topic")
def delete(
    topic: str,
    connection: Connection,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Delete a topic and every record in it, and wait until it is gone.

    Example: fencepost topic delete orders --yes
    """
    with connection.open() as cluster:
        from fencepost.kafka.topics import delete_topic, describe_topic

        found = describe_topic(cluster, topic)
        if not yes:
            _confirm(found)
        delete_topic(cluster, topic)
    if output is OutputFormat.JSON:
        emit_json({"deleted": True, "topic": found.topic, "topic_id": found.topic_id})
    else:
        say(f"deleted topic {topic}")


def _confirm(found: TopicDescription) -> None:
    if not sys.stdin.isatty():
        raise Usage(f"deleting topic {found.topic} needs confirmation, and there is no terminal to ask on", "add --yes")
    typer.confirm(f"Delete {visible(_headline(found))}, with all its records?", abort=True, err=True)


def _headline(found: TopicDescription) -> str:
    replicas = max(len(one.replicas) for one in found.partitions)
    config = "".join(f", {key}={value}" for key, value in (found.config or {}).items())
    size = f"{count(len(found.partitions), 'partition')}, {count(replicas, 'replica')}"
    return f"topic {found.topic} ({size}{config}, id {found.topic_id})"


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"
