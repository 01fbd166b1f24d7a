"""A remedy as a person follows it: the command in the text, typed as it stands, in the pipeline's folder."""

from __future__ import annotations

import re
import shlex
import shutil
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from fencepost.cli.app import app
from fencepost.errors import FencepostError

_COMMAND = re.compile(r"fencepost (?:positions|topic|init|produce|run|group)\b[^;`()]*?(?=$|[;`()]| and |, | \Z)")


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it or its error said."""

    code: int
    said: str


def fencepost(folder: Path, *words: str) -> Done:
    """In that folder, with a yes to what it asks."""
    with chdir(folder):
        done = CliRunner().invoke(app, words, input="y\n")
    if isinstance(done.exception, FencepostError):
        return Done(done.exception.exit_code, str(done.exception))
    return Done(done.exit_code, done.output)


def commands(error: FencepostError) -> list[str]:
    """Every command of ours that the remedy has."""
    return commands_in(error.remedy)


def commands_in(said: str) -> list[str]:
    return [str(found).rstrip(" .") for found in _COMMAND.findall(said)]


def follow(error: FencepostError, spec: Path) -> None:
    """Type each command of the remedy where the pipeline's file is, and say yes."""
    typed = commands(error)
    assert typed, f"no command in: {error.remedy}"
    shutil.copy(spec, spec.parent / "fencepost.yml")
    for command in typed:
        type_in(command, spec.parent)


def type_in(command: str, folder: Path) -> None:
    """One command, which must work."""
    program, *words = shlex.split(command)
    assert program == "fencepost"
    done = fencepost(folder, *words)
    assert done.code == 0, f"{command}: {done.said}"
