"""`fencepost init`: a pipeline that runs as it is, and a database that is ready for one."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from fencepost.cli.output import FormatOption, OutputFormat, emit_json, say
from fencepost.cli.pipelines import SpecOption, database_spec
from fencepost.errors import Usage
from fencepost.spec import FILE_NAME, parse


def init(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder to create; its name becomes the pipeline's name.")
    ] = None,
    db: Annotated[bool, typer.Option("--db", help="Prepare the database of an existing pipeline.")] = False,
    role: Annotated[
        str | None, typer.Option("--role", help="With --db: grant this role the least privileges that a run needs.")
    ] = None,
    spec: SpecOption = None,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Write a commented fencepost.yml and a transform into a new folder. They run as they are.

    With --db: connect as the pipeline file says, create the ledger and the target if they are missing, and grant a
    role the least privileges that a run needs. Safe to repeat.
    """
    if db and folder is None:
        _prepare(spec, role, output)
    elif folder is not None and not db and role is None and spec is None:
        _write(folder, output)
    else:
        raise Usage(
            "init takes a FOLDER, or --db", "`fencepost init FOLDER`, then in it `fencepost init --db --role NAME`"
        )


def _write(folder: Path, output: OutputFormat) -> None:
    name = folder.resolve().name
    templates = files("fencepost.templates")
    spec = templates.joinpath(FILE_NAME).read_text(encoding="utf-8").format(name=name)
    parse(spec)  # a folder's name may be no name for a pipeline
    texts = {FILE_NAME: spec, "transforms.py": templates.joinpath("transforms.py").read_text(encoding="utf-8")}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_new({folder / file: text for file, text in texts.items()})
    except FileExistsError as error:
        raise Usage(f"{error.filename} exists already, and stays as it is", "choose another folder") from error
    except OSError as error:
        raise Usage(f"{folder} cannot be written: {error.strerror}", "choose another folder") from error
    if output is OutputFormat.JSON:
        emit_json({"pipeline": name, "written": [str(folder / FILE_NAME), str(folder / "transforms.py")]})
    else:
        there = shlex.quote(str(folder))
        say(f"{folder / FILE_NAME} and transforms.py written: cd {there}")
        say("next: fencepost produce --topic orders --count 1000 (if there is no such topic yet), fencepost run --once")


def _write_new(texts: dict[Path, str]) -> None:
    """All of them or none; a file that is there is never touched."""
    made: list[Path] = []
    try:
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as file:
                made.append(path)
                file.write(text)
    except OSError:
        for path in made:
            path.unlink()
        raise


def _prepare(path: Path | None, role: str | None, output: OutputFormat) -> None:
    from fencepost.admin.prepare import prepare

    done = prepare(database_spec(path), role)
    if output is OutputFormat.JSON:
        emit_json(asdict(done))
        return
    for table in done.made:
        say(f"created  {table}")
    for table in done.there:
        say(f"exists   {table}")
    for one in done.granted:
        say(f"granted  {', '.join(one['rights'])} on {one['on']} {one['name']}, to {role}")
    say(f"{done.pipeline} is ready" + (f" for {role}" if role else ": --role NAME grants a role what it needs"))
