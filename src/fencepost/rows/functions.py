"""Functions that a pipeline file or a command names: `module:function` or `file.py:function`."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.errors import FencepostError, Usage


class Exited(Exception):
    """Somebody's function tried to end the process: an error of it like any other."""


@dataclass(frozen=True)
class FunctionName:
    """The name of a function, loaded where it is called: on the driver, or in a worker."""

    text: str
    folder: str = "."  # what a file's name is relative to

    def __str__(self) -> str:
        return self.text

    def load(self) -> Callable[..., Any]:
        """The function. Raises Usage, with file and line, where there is none or its file does not run.

        What it returns may raise anything, but never ends the process.
        """
        place, colon, name = self.text.rpartition(":")
        if not colon or not place or not name.isidentifier():
            raise Usage(f"{self.text!r} does not name a function", "write module:function or file.py:function")
        with _loading(place):
            module = self._file(place) if place.endswith(".py") else self._module(place)
            function = getattr(module, name, None)
        if not callable(function):
            raise Usage(f"{place} has no function {name!r}", "check the name after the colon")
        require_function(function, self.text)
        return _staying(function)

    def _file(self, place: str) -> Any:
        path = Path(self.folder, place).resolve()
        if not path.is_file():
            raise Usage(f"{path} does not exist", "a file's name is relative to the pipeline file")
        spec = importlib.util.spec_from_file_location(f"fencepost_transform_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise Usage(f"{path} cannot be loaded as Python")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def _module(self, place: str) -> Any:
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise Usage(f"there is no module {place!r}: {error}", "check the name before the colon") from error


def require_function(function: object, name: str, yields: bool = True) -> None:
    """Refuse what can be called and does nothing when it is: events would count as processed that nobody saw.

    `yields`: somebody takes what a generator gives.
    """
    if isinstance(function, type):
        raise Usage(f"{name} is a class", "name a function")
    inner = function.func if isinstance(function, functools.partial) else function
    plain = inner if inspect.isroutine(inner) else type(inner).__call__
    if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain):
        raise Usage(f"{name} is async, but nothing would await it", "write def, and asyncio.run(...) inside of it")
    if inspect.isgeneratorfunction(plain) and not yields:
        raise Usage(f"{name} is a generator, but its values would not be used", "write it without yield")


@contextmanager
def _loading(place: str) -> Iterator[None]:
    """What stops a module from being loaded, in one line; Ctrl-C goes through."""
    try:
        yield
    except (FencepostError, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        where = f"{error.filename or place} line {error.lineno}" if error.lineno else f"{error.filename or place}"
        raise Usage(f"{where}: {error.msg}", "fix it: it is not valid Python") from error
    except BaseException as error:
        raise Usage(f"{place} cannot be loaded: {said(error)}", "fix it: it must be importable") from error


def _staying(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, whose sys.exit ends its own call and nothing else."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except (SystemExit, GeneratorExit) as error:
            raise Exited(said(error)) from error

    return call


def said(error: BaseException) -> str:
    """What was raised, in one line, and in which file and line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    what = f"it called sys.exit({error.code!r})" if isinstance(error, SystemExit) else text
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in _OURS]
    own = [frame for frame in frames if not frame.filename.startswith("<")]
    return f"{what} ({own[-1].filename} line {own[-1].lineno})" if own else what


_OURS = {__file__}
