"""What a command is about, named as ours have it (`topic describe orders`) or as Kafka's do (`--topic orders`)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, cast

import typer

from fencepost.errors import Usage


def named(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a name's argument, or option, for its parameter `what`."""
    word = typer.Argument(metavar=what.upper(), help=f"The {what}'s name.", show_default=False)
    option = typer.Option(f"--{what}", help="The same, as Kafka's tools have it.")

    def with_name(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        kept = [parameter for parameter in own.parameters.values() if parameter.name != what]
        added = [_parameter("name", word), _parameter(f"named_{what}", option)]

        @functools.wraps(command)
        def run(**values: object) -> None:
            given = (values.pop("name"), values.pop(f"named_{what}"))
            command(**{what: _one(what, *cast(tuple[str | None, str | None], given))}, **values)

        keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in kept]
        run.__signature__ = own.replace(parameters=added + keyword)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in added + keyword}
        return run

    return with_name


def _parameter(name: str, kind: object) -> inspect.Parameter:
    annotation = Annotated[str | None, kind]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _one(what: str, name: str | None, option: str | None) -> str:
    if name is not None and option is not None and name != option:
        raise Usage(f"{name} and --{what} {option}", "give one of the two")
    found = name if name is not None else option
    if found is None:
        raise Usage(f"which {what}?", f"give its name, or --{what}")
    return found
