"""The tree of commands, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import shlex
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from fencepost import __version__
from fencepost.cli import (
    audit,
    consume,
    demo,
    doctor,
    group,
    init,
    lab,
    look,
    plan,
    positions,
    produce,
    receipt,
    run,
    stack,
    state,
    topic,
    txn,
    web,
)
from fencepost.cli.output import INTERRUPTED, complain, say
from fencepost.cli.streams import ReaderGone, guard_streams
from fencepost.errors import FencepostError, Usage

UNFORESEEN, UNDECIDED = 6, 5
PACKAGE = Path(__file__).parents[1]
_LONGEST = 300  # characters of an unforeseen exception's own words
_UsageError = typer.BadParameter.__base__ or typer.BadParameter  # typer gives it no name of its own


@dataclass
class _Asked:
    """What main must know of the command that it ran."""

    command: str = ""
    debug: bool = False


_asked = _Asked()


class Commands(TyperGroup):
    """The commands; typer itself would end an interrupted one without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        finally:
            _asked.command = ctx.invoked_subcommand or ""


class Command(TyperCommand):
    """One command. Only a path may hold bytes that are no text: a driver written in C would end the process."""

    def invoke(self, ctx: Any) -> Any:
        for name, given in ctx.params.items():
            for one in given if isinstance(given, list | tuple) else [given]:
                if isinstance(one, str) and name != "file" and not _is_text(one):
                    raise Usage(f"{one!r} is not text: it is not UTF-8", "give it in UTF-8")
        try:
            return super().invoke(ctx)
        except FencepostError as error:
            if spec := ctx.params.get("spec"):
                error.remedy = _about(spec, error.remedy)
            raise


def _about(spec: Path, remedy: str) -> str:
    """The remedy's commands for the file that was typed: without it they would be about another pipeline."""
    for command in ("fencepost positions set", "fencepost state rebuild"):
        remedy = remedy.replace(command, f"{command} --spec {shlex.quote(str(spec))}")
    return remedy


app = typer.Typer(
    name="fencepost",
    cls=Commands,
    help="Deliver events from Kafka to a sink under a declared guarantee, and prove it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(stack.app, name="stack")
app.command()(stack.up)
app.command()(stack.down)
app.add_typer(topic.app, name="topic")
app.add_typer(group.app, name="group")
app.add_typer(txn.app, name="txn")
app.command()(demo.demo)
app.add_typer(lab.app, name="lab")
app.command()(plan.spec)
app.command()(init.init)
app.command()(plan.plan)
app.command()(run.run)
app.command()(look.status)
app.command()(look.peek)
app.command()(audit.audit)
app.command()(receipt.receipt)
app.add_typer(positions.app, name="positions")
app.add_typer(state.app, name="state")
app.command()(produce.produce)
app.command()(consume.consume)
app.command()(web.web)
app.command()(doctor.doctor)
for registered in (app, *(below.typer_instance for below in app.registered_groups)):
    for command in registered.registered_commands if registered else ():
        command.cls = Command


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"fencepost {__version__}")
        raise typer.Exit


def _set_debug(wanted: bool) -> None:
    _asked.debug = wanted


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    _debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            envvar="FENCEPOST_DEBUG",
            callback=_set_debug,
            help="Show the traceback of an error. Goes before the command.",
        ),
    ] = False,
) -> None:
    """Options that every command has."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; every error ends in one line and its own exit code, an unexpected one too."""
    guard_streams()
    _asked.command, _asked.debug = "", False
    try:
        code = app(args=arguments, standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        complain("interrupted")
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 (the last place: what comes here is told, with a code of its own)
        code = _told(error)
    sys.exit(code)


def _told(error: Exception) -> int:
    """Say it, and how to end."""
    if isinstance(error, typer.Abort) and isinstance(error.__cause__, EOFError):
        error = error.__cause__  # typer takes any end of a file for a person who gave no answer
    if _asked.debug and not isinstance(error, ReaderGone):
        sys.stderr.write("".join(traceback.format_exception(error)))
    if isinstance(error, FencepostError):
        if not isinstance(error, ReaderGone):
            complain(str(error))
        return error.exit_code
    if isinstance(error, typer.Abort):
        complain("stopped: no answer")
        return 1
    if isinstance(error, _UsageError):
        return _told_usage(error)
    what = " ".join(f"{type(error).__name__}: {error}".split())
    shown = what if len(what) <= _LONGEST else f"{what[:_LONGEST]}..."
    complain(
        f"unexpected error: {shown} ({_place(error.__traceback__)}): "
        f"`fencepost --debug {_asked.command or 'COMMAND'} ...` shows the traceback; please report it"
    )
    return UNDECIDED if _asked.command == "audit" else UNFORESEEN


def _told_usage(error: Any) -> int:
    """What typer found wrong with the words of the command line; without any words it shows its help."""
    path = error.ctx.command_path if error.ctx else "fencepost"
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error.format_message()}\n")
    else:
        complain(f"{error.format_message().strip().rstrip('.')} (see `{path} --help`)")
    return int(error.exit_code)


def _place(trace: TracebackType | None) -> str:
    """The innermost line of ours."""
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(trace)]
    ours = [(path, line) for path, line in frames if path.is_relative_to(PACKAGE)] or frames
    path, line = ours[-1] if ours else (PACKAGE, 0)
    return f"{path.relative_to(PACKAGE.parent) if path.is_relative_to(PACKAGE) else path}:{line}"
