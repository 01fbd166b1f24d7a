"""The lines of a file or a stream, and the events that they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, NamedTuple

from fencepost.producing.events import Event
from fencepost.producing.sources.layouts import Decode, Layout, decoder
from fencepost.producing.sources.source import BrokenLine

LONGEST_LINE = 64 * 1024 * 1024  # no broker takes such an event, and no file may fill the memory
LONGEST_ROW = 4 * 1024 * 1024  # a quote that is never closed must not take the whole file along


@dataclass(frozen=True)
class Reading:
    """How lines become events."""

    layout: Layout | None = None  # None: by each file's suffix
    key: str | None = None  # the field whose value is the event's key
    skip_broken: bool = False


def decoder_of(name: str, layout: Layout, header: bytes, key: str | None) -> Decode:
    try:
        return decoder(layout, header, key)
    except BrokenLine as error:
        raise BrokenLine(f"{name} line 1: {error.message}", "give it a header that names the columns") from error


class Row(NamedTuple):
    """One line, or the lines of one row of CSV, with their line ends; of one that is too long, only a part."""

    raw: bytes
    long: bool = False  # the first part of one that is too long
    piece: bool = False  # a further part of it


def event_of(row: Row, decode: Decode, number: int = 0) -> Event | None:
    """None for an empty line. Raises BrokenLine."""
    if row.long:
        raise BrokenLine(f"longer than {LONGEST_LINE:,} bytes")
    text = row.raw.rstrip(b"\r\n")
    return Event(*decode(text), -1, number) if text and not row.piece else None


def rows(file: IO[bytes], layout: Layout) -> Iterator[Row]:
    """From where the file stands to its end; no more than one row is held."""
    if layout is not Layout.CSV:
        yield from _lines(file)
        return
    held, open_quotes = b"", 0
    for line in _lines(file):
        held += line.raw
        open_quotes ^= line.raw.count(b'"') & 1
        if line.long or line.piece or not open_quotes or len(held) > LONGEST_ROW:
            yield Row(held, line.long, line.piece)
            held, open_quotes = b"", 0
    if held:
        yield Row(held)


def _lines(file: IO[bytes]) -> Iterator[Row]:
    inside = False
    while raw := file.readline(LONGEST_LINE):
        whole = raw.endswith(b"\n") or len(raw) < LONGEST_LINE
        yield Row(raw, not inside and not whole, inside)
        inside = not whole
