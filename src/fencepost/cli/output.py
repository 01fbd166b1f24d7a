"""How commands speak: people's text or JSON to stdout, progress and errors to stderr."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[OutputFormat, typer.Option("--format", help="text for people, json for scripts (one object).")]

console = Console(highlight=False, soft_wrap=True)
progress_console = Console(stderr=True, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """A line of text for people, on stdout."""
    console.print(text, markup=False)


def note(text: str) -> None:
    """A line about progress, on stderr."""
    progress_console.print(text, markup=False)


def emit_json(value: Any) -> None:
    """One JSON value on one line of stdout."""
    sys.stdout.write(json.dumps(value, default=str) + "\n")
    sys.stdout.flush()


def emit_table(columns: list[str], rows: list[list[Any]]) -> None:
    """A plain table that is cut nowhere, so that it can be piped."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True, overflow="ignore")
    for row in rows:
        table.add_row(*("-" if cell is None else str(cell) for cell in row))
    wide = Console(highlight=False, width=None if console.is_terminal else 1000)
    wide.print(table, crop=False)
