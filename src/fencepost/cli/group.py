"""`fencepost group`: how far consumer groups are, and who reads what."""

from __future__ import annotations

from dataclasses import asdict

import typer

from fencepost.cli.connection import Connection, connected
from fencepost.cli.naming import named
from fencepost.cli.output import FormatOption, OutputFormat, emit_json, emit_table, say
from fencepost.machine.counting import count

app = typer.Typer(
    help="List consumer groups, and show their offsets and lag.",
    no_args_is_help=True,
)


@app.command("list")
@connected
def list_(connection: Connection, output: FormatOption = OutputFormat.TEXT) -> None:
    """List the consumer groups, of the classic protocol and of KIP-848 (type consumer).

    Example: fencepost group list --format json
    """
    with connection.open() as cluster:
        from fencepost.kafka.groups import list_groups

        groups = list_groups(cluster)
    if output is OutputFormat.JSON:
        emit_json({"groups": [asdict(one) for one in groups]})
        return
    emit_table(["GROUP", "TYPE", "STATE"], [[one.group, one.type, one.state] for one in groups])


@app.command("describe")
@connected
@named("group")
def describe(
    group: str,
    connection: Connection,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show a group: offset, end, lag and owner of each partition.

    POSITION is the committed offset: the next one to read. "-" means that none is committed.

    Example: fencepost group describe fencepost.orders-to-postgres
    """
    with connection.open() as cluster:
        from fencepost.kafka.groups import describe_group

        found = describe_group(cluster, group)
    if output is OutputFormat.JSON:
        emit_json(asdict(found))
        return
    say(f"group {found.group} ({found.type}, {found.state}, {count(len(found.members), 'member')})")
    emit_table(
        ["TOPIC", "PARTITION", "POSITION", "END", "LAG", "OWNER", "HOST", "MEMBER ID"],
        [
            [
                one.topic,
                one.partition,
                one.position,
                one.end_offset,
                one.lag,
                one.owner and one.owner.client_id,
                one.owner and one.owner.host,
                one.owner and one.owner.member_id,
            ]
            for one in found.partitions
        ],
    )
