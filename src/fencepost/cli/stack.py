"""Commands for the local stack: `fencepost stack up`, `down`, `status`; `fencepost up` and `down` for short."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.output import FormatOption, OutputFormat, emit_json, emit_table, say
from fencepost.errors import Unreachable

if TYPE_CHECKING:
    from fencepost.local.status import NodeStatus, Status

HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home",
        envvar="FENCEPOST_HOME",
        show_default=".fencepost",
        help="Folder of the stack. Another folder is another stack, on other ports.",
    ),
]

app = typer.Typer(
    help="A Kafka cluster (one controller, three brokers) and PostgreSQL on this machine.", no_args_is_help=True
)


@app.command()
def up(home: HomeOption = None, output: FormatOption = OutputFormat.TEXT) -> None:
    """Start the local stack, and return when everything is up. Safe to repeat.

    The first start fetches Kafka's jars (about 45 MB).
    """
    from fencepost.local import DEFAULT_HOME, Stack
    from fencepost.local.interrupts import terminating
    from fencepost.machine.progress import for_stderr

    with terminating():
        stack = Stack(home or DEFAULT_HOME, progress=for_stderr()).up()
    _show(stack.status(), output)


@app.command()
def down(
    home: HomeOption = None,
    wipe: Annotated[bool, typer.Option("--wipe", help="Delete its data too: topics, tables, everything.")] = False,
) -> None:
    """Stop the local stack. Its data is kept for the next `up`, unless --wipe is given."""
    from fencepost.local import Stack, nearest_home
    from fencepost.machine.progress import for_stderr

    stack = Stack(home or nearest_home(), progress=for_stderr())
    if not stack.exists:
        say(f"no stack in {stack.home}")
        return
    stack.down(wipe=wipe)
    say(f"stopped and removed {stack.home}" if wipe else f"stopped; the data stays in {stack.home}")


@app.command()
def status(home: HomeOption = None, output: FormatOption = OutputFormat.TEXT) -> None:
    """Show each process of the local stack, and how many partitions each broker leads.

    Exits with 0 if everything is up, with 3 otherwise.
    """
    from fencepost.local import Stack, nearest_home

    stack = Stack(home or nearest_home())
    found = stack.status()
    if stack.exists or output is OutputFormat.JSON:
        _show(found, output)
    if not stack.exists:
        raise Unreachable(f"no stack in {stack.home}", "`fencepost up` starts one")
    if found.missing:
        raise Unreachable(f"not up: {', '.join(found.missing)}", "`fencepost up` starts what is down")
    if found.orphans:
        raise Unreachable(f"orphaned processes: {found.orphans}", "`fencepost up` ends them")


def _show(found: Status, output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        emit_json(found.as_json())
        return
    emit_table(["process", "state", "port", "pid", "memory", "uptime", "leaders"], [_row(node) for node in found.nodes])
    if found.bootstrap_servers:
        say()
        say(f"bootstrap.servers  {found.bootstrap_servers}")
        say(f"postgres           {found.dsn}")


def _row(node: NodeStatus) -> list[object]:
    memory = f"{node.memory / 2**20:.0f} MB" if node.memory is not None else None
    uptime = _duration(node.uptime) if node.uptime is not None else None
    return [node.name, node.state, node.port, node.pid, memory, uptime, node.leaders]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
