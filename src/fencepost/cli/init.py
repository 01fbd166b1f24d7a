"""`fencepost init`: a pipeline that runs as it is."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from fencepost.cli.output import say
from fencepost.errors import Usage
from fencepost.spec import FILE_NAME, parse


def init(
    folder: Annotated[Path, typer.Argument(help="The folder to make; its name becomes the pipeline's name.")],
) -> None:
    """Write a commented fencepost.yml and a transform into a new folder. They run as they are."""
    name = folder.resolve().name
    templates = files("fencepost.templates")
    spec = templates.joinpath(FILE_NAME).read_text().format(name=name)
    parse(spec)  # a folder's name may be no name for a pipeline
    if (folder / FILE_NAME).exists():
        raise Usage(f"{folder / FILE_NAME} exists already", "choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "transforms.py").write_text(templates.joinpath("transforms.py").read_text())
        (folder / FILE_NAME).write_text(spec)
    except OSError as error:
        raise Usage(f"{folder} cannot be written: {error.strerror}", "choose another folder") from error
    say(f"{folder / FILE_NAME} and transforms.py written: cd {folder} && fencepost run --once")
