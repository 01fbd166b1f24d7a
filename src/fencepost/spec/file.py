"""The pipeline file: fencepost.yml becomes a PipelineSpec, or a list of what is wrong in it, by line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fencepost.errors import Usage
from fencepost.spec.parts import (
    BatchSpec,
    KafkaOptions,
    PipelineSpec,
    PostgresOptions,
    SinkSpec,
    SourceSpec,
    TransformSpec,
)

FILE_NAME = "fencepost.yml"
_ENVIRONMENT = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


def find(start: Path | None = None) -> Path:
    """The pipeline file of the working directory or the nearest of its parents."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    raise Usage(f"there is no {FILE_NAME} in {here} or above it", "make one with `fencepost init NAME`, or give --spec")


def load(path: Path) -> PipelineSpec:
    """Read and check a pipeline file. Raises Usage that names each problem by line and key."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"{path} cannot be read: {error}") from error
    return parse(text, path.name, str(path.resolve().parent))


def parse(text: str, name: str = FILE_NAME, folder: str = ".") -> PipelineSpec:
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise Usage(f"{name}{line}: not YAML: {error.problem}") from error
    if not isinstance(content, dict):
        raise Usage(f"{name}: a pipeline file holds keys and values, and this one does not", "see `fencepost init`")
    lines = _Lines(tree)
    problems: list[str] = []
    filled = _fill(content, (), lines, problems)
    try:
        spec = PipelineSpec.model_validate({**filled, "folder": folder})
    except ValidationError as error:
        problems += [_problem(details, lines) for details in error.errors(include_url=False)]
    if problems:
        raise Usage("\n".join(f"{name} {problem}" for problem in problems))
    return spec


def _fill(value: Any, path: tuple[Any, ...], lines: _Lines, problems: list[str]) -> Any:
    """`${NAME}` and `${NAME:-default}` from the environment, in every text."""
    if isinstance(value, dict):
        return {key: _fill(below, (*path, key), lines, problems) for key, below in value.items()}
    if isinstance(value, list):
        return [_fill(below, path, lines, problems) for below in value]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        found: str | None = os.environ.get(match["name"], match["default"])
        if found is None:
            problems.append(f"line {lines.of(path)}: {_dotted(path)}: the environment has no {match['name']}")
        return found or ""

    return _ENVIRONMENT.sub(fill, value)


class _Lines:
    """Where each key of the file stands."""

    def __init__(self, tree: yaml.Node | None) -> None:
        self._lines = dict(self._walk(tree, ()))

    def of(self, path: Sequence[Any]) -> int:
        """The line of the key, or of the nearest one above it."""
        known = tuple(path)
        while known and known not in self._lines:
            known = known[:-1]
        return self._lines.get(known, 1)

    def _walk(self, node: yaml.Node | None, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], int]]:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                below = (*path, key.value)
                yield below, key.start_mark.line + 1
                yield from self._walk(value, below)


def _problem(details: ErrorDetails, lines: _Lines) -> str:
    path = tuple(part for part in details["loc"] if isinstance(part, str | int))
    where = f"line {lines.of(path)}: {_dotted(path)}"
    if details["type"] == "extra_forbidden":
        near = get_close_matches(str(path[-1]), _keys_beside(path), n=1)
        return f"{where}: no such key" + (f"; did you mean {near[0]!r}?" if near else "")
    if details["type"] == "missing":
        return f"{where}: is required"
    given = details["input"]
    shown = f", not {given!r}" if isinstance(given, str | int | float | bool) and not _may_be_secret(path) else ""
    return f"{where}: {details['msg'][0].lower()}{details['msg'][1:]}{shown}"


def _may_be_secret(path: Sequence[Any]) -> bool:
    return path[0] in ("kafka", "spark") or path[-1] in ("dsn", "options", "sink")


def _keys_beside(path: Sequence[Any]) -> list[str]:
    """The keys that are allowed where an unknown one was found."""
    parts: dict[str, list[type[BaseModel]]] = {
        "source": [SourceSpec],
        "transform": [TransformSpec],
        "sink": [SinkSpec],
        "options": [PostgresOptions, KafkaOptions],
        "batch": [BatchSpec],
    }
    models = parts.get(path[-2], [PipelineSpec]) if len(path) > 1 else [PipelineSpec]
    fields = [named for model in models for named in model.model_fields.items()]
    return [field.alias or name for name, field in fields if not field.exclude]


def _dotted(path: Sequence[Any]) -> str:
    return ".".join(map(str, path)) or "the file"
