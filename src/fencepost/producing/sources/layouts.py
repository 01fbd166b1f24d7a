"""What a line of a file means: JSON, a row of CSV, or just text."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from fencepost.errors import Usage
from fencepost.producing.sources.opening import suffix_of
from fencepost.producing.sources.source import BrokenLine

csv.field_size_limit(64 * 1024 * 1024)  # its own limit is less than what an event may hold


class Layout(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"
    TEXT = "text"


_BY_SUFFIX = {".jsonl": Layout.JSONL, ".ndjson": Layout.JSONL, ".json": Layout.JSONL, ".csv": Layout.CSV}

Decode = Callable[[bytes], tuple[bytes, bytes | None]]
"""A line to a value and a key. Raises BrokenLine, saying why it is no event."""


def layout_of(path: Path) -> Layout:
    return _BY_SUFFIX.get(suffix_of(path), Layout.TEXT)


def decoder(layout: Layout, header: bytes, key: str | None) -> Decode:
    """How the lines of one file are read; `header` is the first line of a CSV file."""
    match layout:
        case Layout.TEXT:
            if key is not None:
                raise Usage(f"--key {key}: a line of text has no fields", "give --input jsonl or csv")
            return lambda raw: (raw, None)
        case Layout.JSONL:
            return lambda raw: _json(raw, key)
        case Layout.CSV:
            columns = _row(header)
            twice = sorted({column for column in columns if columns.count(column) > 1})
            if twice:
                raise BrokenLine(f"the column {twice[0]!r} occurs twice; an event has one field per name")
            if key is not None and key not in columns:
                raise Usage(f"--key {key}: there is no such column", f"one of {', '.join(columns)}")
            return lambda raw: _csv(raw, columns, key)


def _json(raw: bytes, key: str | None) -> tuple[bytes, bytes | None]:
    value = _parsed(raw)
    if key is None:
        return raw, None
    if not isinstance(value, dict) or key not in value:
        raise BrokenLine(f"there is no field {key!r}")
    return raw, _bytes(value[key], key)


def _parsed(raw: bytes) -> Any:
    try:
        text = raw.decode()  # json itself would take UTF-16 too, of which a line is never whole
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise BrokenLine(f"not JSON: {error.msg} at character {error.pos + 1}") from error
        except ValueError:  # an integer that is too long for Python: its digits will do
            return json.loads(text, parse_int=str)
    except UnicodeDecodeError as error:
        raise BrokenLine(f"not UTF-8 at byte {error.start + 1}") from error
    except RecursionError as error:
        raise BrokenLine("not JSON: nested too deeply") from error


def _bytes(value: Any, key: str) -> bytes:
    try:
        return (value if isinstance(value, str) else json.dumps(value)).encode()
    except UnicodeEncodeError as error:
        raise BrokenLine(f"the field {key!r} is not text: a lone surrogate") from error


def _csv(raw: bytes, columns: list[str], key: str | None) -> tuple[bytes, bytes | None]:
    cells = _row(raw)
    if len(cells) != len(columns):
        raise BrokenLine(f"{len(cells)} cells, but the header has {len(columns)}")
    row = dict(zip(columns, cells, strict=True))
    return json.dumps(row).encode(), row[key].encode() if key is not None else None


def _row(raw: bytes) -> list[str]:
    try:
        return next(csv.reader([raw.decode().rstrip("\r\n")], strict=True), [])
    except UnicodeDecodeError as error:
        raise BrokenLine(f"not UTF-8 at byte {error.start + 1}") from error
    except csv.Error as error:
        raise BrokenLine(f"not CSV: {error}") from error
