"""How commands speak: people's text or JSON to stdout, progress and errors to stderr.

Everything that came from outside (events, names, files, the words of brokers and databases) passes through here, and
no control character, markup or cut number gets through: text shows them as escapes, JSON is exact and plain ASCII.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from fencepost.machine.plain_json import dumped, hexadecimal
from fencepost.machine.printable import visible

INTERRUPTED = 130  # the exit code after Ctrl-C
_GAP = "  "


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[
    OutputFormat, typer.Option("--format", help="text for people, or one JSON object for scripts.")
]

LONG = 200  # characters, or bytes

console = Console(highlight=False, soft_wrap=True)
progress_console = Console(stderr=True, highlight=False, soft_wrap=True)


def say(text: str = "") -> None:
    """A line of text for people, on stdout."""
    _print(console, text)


def note(text: str) -> None:
    """A line about progress, on stderr."""
    _print(progress_console, text)


def complain(text: str) -> None:
    """What a command ends with: one line on stderr, and one more, set in, for each line end in the message."""
    for number, line in enumerate(f"fencepost: {text}".split("\n")):
        note(f"  {line}" if number else line)


def emit_json(value: Any) -> None:
    """One JSON value on one line of stdout: valid for every parser, and nothing in it steers a terminal."""
    sys.stdout.write(dumped(value) + "\n")
    sys.stdout.flush()


def emit_table(columns: list[str], rows: list[list[Any]]) -> None:
    """A plain table that is cut nowhere. On a terminal that is too narrow for it: one field per line."""
    heads = [visible(column) for column in columns]
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(heads, *cells, strict=True)]
    wide = sum(widths) + len(_GAP) * (len(widths) - 1)
    if cells and console.is_terminal and wide > console.width:
        _emit_fields(heads, cells)
        return
    _print(console, _line(heads, widths), "bold")
    for row in cells:
        _print(console, _line(row, widths))


def shortened(value: Any) -> Any:
    """A long text or long bytes by their beginning and their size, which says that they are cut."""
    if isinstance(value, bytes | memoryview) and len(value) > LONG:
        return f"{hexadecimal(value[:LONG])}… ({len(value):,} bytes)"
    if isinstance(value, str) and len(value) > LONG:
        return f"{value[:LONG]}… ({len(value):,} characters)"
    return value


def _emit_fields(heads: list[str], rows: list[list[str]]) -> None:
    width = max(map(cell_len, heads))
    for number, row in enumerate(rows):
        if number:
            say()
        for head, value in zip(heads, row, strict=True):
            say(f"{_padded(head, width)}{_GAP}{value}".rstrip())


def _line(cells: list[str], widths: list[int]) -> str:
    return _GAP.join(map(_padded, cells, widths)).rstrip()


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return visible(hexadecimal(value) if isinstance(value, bytes | memoryview) else str(value))


def _print(where: Console, text: str, style: str = "") -> None:
    where.print(Text(visible(text), style), soft_wrap=True)
