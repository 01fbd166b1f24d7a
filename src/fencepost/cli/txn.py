"""`fencepost txn`: transactions, which of them hang, and ending one that does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.connection import Connection, connected
from fencepost.cli.output import FormatOption, OutputFormat, emit_json, emit_table, note, say
from fencepost.errors import Usage
from fencepost.machine.printable import visible

if TYPE_CHECKING:
    from fencepost.kafka.open_transactions import OpenProducer, TransactionDescription
    from fencepost.kafka.wire import Wire

app = typer.Typer(
    help="List transactions, say who holds readers of committed records back, and end a transaction that hangs.",
    no_args_is_help=True,
)


@app.command("list")
@connected
def list_(
    connection: Connection,
    only_open: Annotated[bool, typer.Option("--open", help="Only those that are open now.")] = False,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """List the transactional ids that the coordinators remember, those with an open transaction first.

    Example: fencepost txn list --open
    """
    with _wire(connection) as wire:
        from fencepost.kafka.open_transactions import OPEN, list_transactions

        found = [one for one in list_transactions(wire) if not only_open or one.state in OPEN]
    if output is OutputFormat.JSON:
        emit_json({"transactions": [asdict(one) for one in found]})
        return
    rows = [[one.transactional_id, one.state, one.producer_id, one.coordinator] for one in found]
    emit_table(["TRANSACTIONAL ID", "STATE", "PRODUCER", "COORDINATOR"], rows)


@app.command("describe")
@connected
def describe(
    transactional_id: Annotated[str, typer.Argument(metavar="TRANSACTIONAL-ID", help="As `txn list` shows it.")],
    connection: Connection,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show one transactional id: its producer, its state, since when it is open, and the partitions that it holds.

    Example: fencepost txn describe payments-1
    """
    with _wire(connection) as wire:
        from fencepost.kafka.open_transactions import describe_transactions

        (found,) = describe_transactions(wire, [transactional_id])
    if output is OutputFormat.JSON:
        emit_json(found.as_json(datetime.now(UTC)))
        return
    say(f"{found.transactional_id}: {found.state}, producer {found.producer_id}, epoch {found.producer_epoch}")
    say(f"coordinator {found.coordinator}, transaction.timeout.ms {found.timeout_ms:,}{_since(found)}")
    for at in found.partitions:
        say(f"  {at}")


def _since(found: TransactionDescription) -> str:
    age = found.age(datetime.now(UTC))
    if age is None:
        return ""
    late = ", longer than its timeout" if found.overdue(datetime.now(UTC)) else ""
    return f", open for {age:,.0f} s{late}"


@app.command("find-hanging")
@connected
def find_hanging_(
    connection: Connection,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Look in this topic only. May be repeated. Default: all.")
    ] = None,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Find transactions that hang: a partition keeps one open, and no coordinator knows of it, so that nobody ends it.

    Readers of committed records stop at its first record for ever. It looks twice, some seconds apart, so that one
    that begins or ends meanwhile is not taken for one. Exits with 1 if there are any.

    Example: fencepost txn find-hanging --topic payments
    """
    with _wire(connection) as wire:
        from fencepost.kafka.open_transactions import find_hanging

        found = find_hanging(wire, _partitions(wire, topic))
    if output is OutputFormat.JSON:
        emit_json({"hanging": [one.as_json() for one in found]})
    elif found:
        rows = [list(one.as_json().values()) for one in found]
        emit_table(["TOPIC", "PARTITION", "START OFFSET", "PRODUCER", "EPOCH", "LAST RECORD"], rows)
    else:
        say("no transaction hangs")
    if found:
        raise typer.Exit(1)


@app.command("abort")
@connected
def abort(  # noqa: PLR0913  (a command's options are its parameters)
    connection: Connection,
    *,
    topic: Annotated[str, typer.Option("--topic", help="Topic of the partition that is held.")],
    partition: Annotated[int, typer.Option("--partition", min=0, help="The partition that is held.")],
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, help="Where it begins; needed if several are open there.")
    ] = None,
    producer_id: Annotated[int | None, typer.Option("--producer-id", min=0, help="Its producer.")] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Though its owner may be alive: what it wrote there is lost in silence.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Abort one open transaction in one partition, by a marker: no reader of committed records will get what it wrote.

    Meant for transactions that hang. One that a coordinator still knows has an owner who may be alive: its commit would
    say that all is well, and its records would be gone. That is refused, unless --live is given. Needs the right to
    describe every transactional id: brokers do not show the others, whose transactions seem to hang.

    Example: fencepost txn abort --topic payments --partition 3 --start-offset 1042
    """
    with _wire(connection) as wire:
        from fencepost.kafka.names import require_topic
        from fencepost.kafka.open_transactions import abort_hanging, find_open, require_hanging, require_open
        from fencepost.model import TopicPartition

        meant = find_open(wire, TopicPartition(require_topic(topic), partition), producer_id, start_offset)
        if live:
            _warn_of(wire, meant)
        else:
            require_hanging(wire, meant)
        if not yes:
            _confirm(meant)
        if live:  # its producer keeps id and epoch: the marker would hit the next one
            require_open(wire, meant)
        elif not yes:  # the answer may have taken minutes
            require_hanging(wire, meant)
        abort_hanging(wire, meant)
    if output is OutputFormat.JSON:
        emit_json({"aborted": True, **meant.as_json()})
    else:
        say(f"aborted the transaction at {meant.start_offset} of {meant.partition}, of producer {meant.producer_id}")


def _warn_of(wire: Wire, meant: OpenProducer) -> None:
    from fencepost.kafka.open_transactions import owner_of

    if owner := owner_of(wire, meant):
        note(
            f"warning: transactional.id {owner.transactional_id} owns it ({owner.state}): if its producer is alive, "
            "its commit will say that all is well, and its records in this partition are lost"
        )


def _confirm(meant: OpenProducer) -> None:
    what = f"the transaction that begins at offset {meant.start_offset} of {meant.partition}"
    if not sys.stdin.isatty():
        raise Usage(f"aborting {what} needs confirmation, and there is no terminal to ask on", "add --yes")
    asked = f"Abort {what}, of producer {meant.producer_id}? Its records there are never read"
    typer.confirm(visible(asked), abort=True, err=True)


def _wire(connection: Connection) -> Wire:
    from fencepost.kafka.wire import Wire

    return Wire(connection.kafka_settings())


def _partitions(wire: Wire, topics: Sequence[str] | None) -> list[Any]:
    from fencepost.kafka.layout import leaders_of

    return sorted(leaders_of(wire, topics))
