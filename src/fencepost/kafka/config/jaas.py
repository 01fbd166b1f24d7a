"""Java's line of who we are: the name of a class and its options, as in `sasl.jaas.config`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fencepost.errors import Usage

_OPTION = re.compile(r"""\s*([\w.]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""")
_ESCAPED = re.compile(r"\\(.)")
_CONTROL = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LOGIN = re.compile(rf"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)((?:{_OPTION.pattern})*)\s*;\s*")


def read(line: str) -> tuple[str, dict[str, str]]:
    """The class and its options. Raises Usage, which does not show the line."""
    match = _LOGIN.fullmatch(line)
    if match is None:
        raise Usage("sasl.jaas.config cannot be read", 'write: CLASS required username="..." password="...";')
    return match[1], {key: _unquoted(value) for key, value in _OPTION.findall(match[2])}


def written(module: str, options: Mapping[str, str]) -> str:
    return f"{module} required {' '.join(f'{name}={_quoted(value)}' for name, value in options.items())};"


def _unquoted(value: str) -> str:
    """As Java reads it: `\\n` is a new line, `\\"` a quotation mark."""
    if value[0] not in "\"'":
        return value
    return _ESCAPED.sub(lambda found: _CONTROL.get(found[1], found[1]), value[1:-1])


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
