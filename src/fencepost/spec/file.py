"""The pipeline file: fencepost.yml becomes a PipelineSpec, or a list of what is wrong in it, by line."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fencepost.errors import Usage
from fencepost.machine.trust import require_ours
from fencepost.sinks import registry
from fencepost.spec import document
from fencepost.spec.document import WORD, NotADocument
from fencepost.spec.parts import (
    BatchSpec,
    DeadLetterSpec,
    PipelineSpec,
    SinkSpec,
    SourceSpec,
    TransformSpec,
    WatermarkSpec,
)

FILE_NAME = "fencepost.yml"
LARGEST = 256 * 1024  # bytes
_ENVIRONMENT = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_NO_TOPIC = "no.topic.is.named.here"
_PASSWORD = re.compile(r"password\s*=|://[^/?#]*:[^/?#]*@", re.IGNORECASE)
_SHOWN = 60  # characters of a wrong value
_MOST_PROBLEMS = 20
Declared = PipelineSpec | Mapping[str, Any] | Path | str
"""A pipeline as a caller gives it: read already, in a mapping, or the path of its file."""

_LIKE_INIT = "see the file that `fencepost init NAME` makes"


def find(start: Path | None = None) -> Path:
    """The pipeline file of the working directory or the nearest of its parents.

    Raises Usage where there is none, and where somebody else could have written it: it names code that runs as us.
    """
    here = (start or _working_folder()).resolve()
    for folder in (here, *here.parents):
        found = folder / FILE_NAME
        if _is_there(found):
            require_ours(found, f"if you trust it, say so: --spec {found}")
            return found
    raise Usage(f"there is no {FILE_NAME} in {here} or above it", "make one with `fencepost init NAME`, or give --spec")


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except PermissionError:
        return False  # of a folder that we may not enter nothing is for us


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise Usage("the working directory no longer exists", "change to another folder") from None


def spec_of(declared: Declared) -> PipelineSpec:
    """The pipeline that a caller means. Raises Usage where it is not declared right."""
    if isinstance(declared, PipelineSpec):
        return declared
    if not isinstance(declared, Mapping):
        return load(Path(declared))
    try:
        return PipelineSpec.model_validate(declared)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_input=False))
        raise Usage(f"the pipeline is not valid: {'; '.join(problems)}") from None  # it shows what is secret


def load(path: Path) -> PipelineSpec:
    """Read and check a pipeline file, whoever wrote it. Raises Usage that names each problem by line and key.

    A file with code that it names must be as little open to others as the pipeline file itself.
    """
    try:
        content = _content(path)
    except OSError as error:
        raise Usage(f"{path} cannot be read: {error.strerror}") from error
    spec = parse(_text(content, path.name), path.name, str(path.resolve().parent))
    for code in _code_files(spec):
        require_ours(code, f"chown it, or chmod go-w it and its folder: it runs as you, as {path} says", like=path)
    return spec


def _code_files(spec: PipelineSpec) -> list[Path]:
    """The files with functions of the transform, as far as they are there."""
    names = [spec.transform.spark, spec.transform.arrow] if spec.transform else []
    places = [name.rpartition(":")[0] for name in names if name]
    files = [Path(spec.folder, place) for place in places if place.endswith(".py")]
    return [file for file in files if file.is_file()]


def _content(path: Path) -> bytes:
    """All of a regular file: who waits for something else may wait for ever."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Usage(f"{path} is not a file", "give the pipeline file itself")
    with os.fdopen(handle, "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise Usage(f"{path} is larger than {LARGEST // 1024} KiB: it is no pipeline file", _LIKE_INIT)
    return content


def _text(content: bytes, name: str) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # UTF-32 begins like that too
        raise Usage(f"{name} is UTF-16", "save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Usage(f"{name} line {line}: is not UTF-8", "save it as UTF-8") from None


def parse(text: str, name: str = FILE_NAME, folder: str = ".") -> PipelineSpec:
    try:
        content, tree = document.read(text)
    except NotADocument as error:
        line = f" line {error.line}" if error.line else ""
        raise Usage(f"{name}{line}: {error.problem}", error.remedy) from None
    if not isinstance(content, dict):
        raise Usage(f"{name}: a pipeline file holds keys and values, and this one does not", _LIKE_INIT)
    reading = _Reading(_Lines(tree))
    filled = reading.fill(content, ())
    if "folder" in content:
        reading.problems.append(f"line {reading.lines.of(('folder',))}: folder: no such key")
    return _checked(reading, {**filled, "folder": folder}, name)


def own_stream(name: str, sink: str, kafka: Mapping[str, str]) -> PipelineSpec:
    """What a pipeline file would say of a stream of one's own, but for its topics: nobody names them here.

    `sink` is written as in such a file: {format: ..., options: {...}}.
    """
    try:
        content, tree = document.read(sink)
    except NotADocument as error:
        raise Usage(f"--sink: {error.problem}", error.remedy) from None
    reading = _Reading(_Lines(tree))
    if not isinstance(content, dict) or "format" not in content:
        raise Usage("--sink does not hold a sink", "write it as in a pipeline file: '{format: ..., options: {...}}'")
    _require_no_password(content.get("options"))
    parts = {"name": name, "guarantee": "exactly-once", "source": {"topic": _NO_TOPIC}, "kafka": dict(kafka)}
    return _checked(reading, {**parts, "sink": reading.fill(content, ("sink",))}, "--sink")


def _require_no_password(options: object) -> None:
    """Of an argument: everybody on the machine sees those."""
    if isinstance(options, dict) and _PASSWORD.search(str(options.get("dsn", ""))):
        raise Usage(
            "everybody on this machine sees the password in --sink",
            "put it into libpq's passfile, or write ${NAME} for what the environment holds, in single quotes",
        )


def _checked(reading: _Reading, parts: Mapping[str, Any], name: str) -> PipelineSpec:
    """Raises Usage with every problem."""
    reading.format = _format_of(parts)
    try:
        spec = PipelineSpec.model_validate(parts)
    except ValidationError as error:
        reading.problems += [reading.problem(details) for details in error.errors(include_url=False)]
    if reading.problems:
        shown, more = reading.problems[:_MOST_PROBLEMS], len(reading.problems) - _MOST_PROBLEMS
        also = [f"{name}: and {more} problems more"] if more > 0 else []
        raise Usage("\n".join([*(f"{name} {problem}" for problem in shown), *also]))
    return spec


class _Reading:
    """The values of one file on their way: `${NAME}` and `${NAME:-default}` become what the environment holds."""

    def __init__(self, lines: _Lines) -> None:
        self.lines = lines
        self.format = ""  # of the sink
        self.problems: list[str] = []
        self._foreign: set[tuple[Any, ...]] = set()  # what came from the environment, and is not shown

    def fill(self, value: Any, path: tuple[Any, ...]) -> Any:
        if isinstance(value, dict):
            return {key: self.fill(below, (*path, key)) for key, below in value.items()}
        if isinstance(value, list):
            return [self.fill(below, path) for below in value]
        if not isinstance(value, str):
            return value

        def filled(match: re.Match[str]) -> str:
            self._foreign.add(path)
            found: str | None = os.environ.get(match["name"], match["default"])
            if found is None:
                self.problems.append(f"{self._where(path)}: the environment has no {match['name']}")
            elif not _is_text(found):
                self.problems.append(f"{self._where(path)}: {match['name']} of the environment is not UTF-8")
            return found or ""

        return _ENVIRONMENT.sub(filled, value)

    def problem(self, details: ErrorDetails) -> str:
        """One problem in one line, with its place."""
        path = tuple(part for part in details["loc"] if isinstance(part, str | int))
        where = self._where(path)
        if details["type"] == "extra_forbidden":
            near = get_close_matches(str(path[-1]), _keys_beside(path, self.format), n=1)
            return f"{where}: no such key" + (f"; did you mean {near[0]!r}?" if near else "")
        if details["type"] == "missing":
            return f"{where}: is required"
        if details["type"] in ("model_type", "dict_type"):
            return f"{where}: must hold keys and values"
        return f"{where}: {details['msg'][0].lower()}{details['msg'][1:]}{self._shown(details['input'], path)}"

    def _where(self, path: Sequence[Any]) -> str:
        return f"line {self.lines.of(path)}: {_dotted(path)}"

    def _shown(self, given: object, path: tuple[Any, ...]) -> str:
        foreign = any(path[: len(one)] == one for one in self._foreign)
        if not isinstance(given, str | int | float | bool) or foreign or _may_be_secret(path):
            return ""
        text = repr(given)
        return f", not {text}" if len(text) <= _SHOWN else f", not {text[:_SHOWN]}..."


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


def _is_text(found: str) -> bool:
    try:
        found.encode()
    except UnicodeEncodeError:
        return False
    return True


def _may_be_secret(path: Sequence[Any]) -> bool:
    return path[0] in ("kafka", "spark") or path[-1] in ("dsn", "options", "sink")


def _format_of(content: Mapping[str, Any]) -> str:
    """Which sink the file names; nothing where there is none of that name."""
    sink = content.get("sink")
    found = sink.get("format") if isinstance(sink, dict) else None
    return found if isinstance(found, str) and found in registry.names() else ""


def _keys_beside(path: Sequence[Any], format_: str) -> list[str]:
    """The keys that are allowed where an unknown one was found."""
    parts: dict[str, list[type[BaseModel]]] = {
        "source": [SourceSpec],
        "transform": [TransformSpec],
        "sink": [SinkSpec],
        "options": [registry.kind(format_).options] if format_ else [],
        "batch": [BatchSpec],
        "watermark": [WatermarkSpec],
        "dead_letters": [DeadLetterSpec],
    }
    models = parts.get(path[-2], [PipelineSpec]) if len(path) > 1 else [PipelineSpec]
    fields = [named for model in models for named in model.model_fields.items()]
    return [field.alias or name for name, field in fields if not field.exclude]


def _dotted(path: Sequence[Any]) -> str:
    """As a person writes it; a key that is no word is not shown, because `dsn:secret` is one."""
    return (
        ".".join(str(part) if WORD.fullmatch(str(part)) else "(a key that is no word)" for part in path) or "the file"
    )
