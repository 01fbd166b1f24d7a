"""Functions that a pipeline file names: `module:function` or `file.py:function`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.errors import Usage


@dataclass(frozen=True)
class FunctionName:
    """The name of a function, loaded where it is called: on the driver, or in a worker."""

    text: str
    folder: str = "."  # what a file's name is relative to

    def __str__(self) -> str:
        return self.text

    def load(self) -> Callable[..., Any]:
        place, colon, name = self.text.rpartition(":")
        if not colon or not place or not name.isidentifier():
            raise Usage(f"{self.text!r} names no function", "write module:function or file.py:function")
        module = self._file(place) if place.endswith(".py") else self._module(place)
        function = getattr(module, name, None)
        if not callable(function):
            raise Usage(f"{place} has no function {name!r}", "see the name behind the colon")
        return function  # type: ignore[no-any-return]

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
            raise Usage(f"there is no module {place!r}: {error}", "see the name before the colon") from error
