"""Java's properties format, in which Kafka's own tools take their settings (`--command-config FILE`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from fencepost.errors import Usage

_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"
# The key ends at the first unescaped blank, "=" or ":"; blanks around one separator belong to neither side.
_PAIR = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def read_properties(path: Path) -> dict[str, str]:
    """The settings in a file. Latin-1, as Java reads it: other characters are written as \\uXXXX."""
    try:
        return parse_properties(path.read_text(encoding="latin-1"))
    except OSError as error:
        raise Usage(
            f"the settings file {path} cannot be read ({error.strerror})", "give a file of key=value lines"
        ) from error


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values; a later line wins over an earlier one with the same key, as in Java."""
    pairs = (_split(line) for line in _logical_lines(text))
    return {_unescape(key): _unescape(value) for key, value in pairs}


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones; a line that ends in an odd number of backslashes goes on."""
    pending: str | None = None  # what there is so far of a line that goes on
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANK)
        if not pending and (not line or line[0] in "#!"):
            pending = None
            continue
        pending = (pending or "") + line
        if _goes_on(line):
            pending = pending[:-1]
        else:
            yield pending
            pending = None
    if pending is not None:
        yield pending


def _goes_on(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    match = _PAIR.fullmatch(line)
    if match is None:  # every line has a key, if only an empty one
        raise AssertionError(line)
    return match[1], match[2]


def _unescape(text: str) -> str:
    return _ESCAPED.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    escaped = match[1]
    if len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    if escaped == "u":
        raise Usage("a \\u in the settings is not followed by four hex digits", "write a backslash as \\\\")
    return _CONTROL.get(escaped, escaped)
