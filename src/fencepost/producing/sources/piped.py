"""Lines that come through a pipe, and can be read once."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from fencepost.producing.events import Event
from fencepost.producing.sources.layouts import Decode, Layout
from fencepost.producing.sources.lines import LONGEST_ROW, Reading, Row, decoder_of, event_of, rows
from fencepost.producing.sources.opening import BOM, HEAD, packing_in, reading_errors_named, require_lines, unpacked
from fencepost.producing.sources.source import BrokenLine, Stream

_NAME = "standard input"


class Piped(Stream):
    """The lines of standard input."""

    def __init__(self, stream: io.BufferedReader[Any], reading: Reading | None = None) -> None:
        super().__init__(self._read(stream))
        self._reading = reading or Reading()
        self.broken: list[tuple[str, int, str]] = []

    def _read(self, stream: io.BufferedReader[Any]) -> Iterator[Event]:
        """Raises BrokenLine at a line that is no event, Usage where there are no lines."""
        layout = self._reading.layout or Layout.TEXT
        with reading_errors_named(_NAME), unpacked(stream, packing_in(stream.peek(4)), _NAME) as plain:
            head = plain.peek(HEAD)  # what is there: nobody waits for more
            if self._reading.layout is None:
                require_lines(head, _NAME, layout)
            if head.startswith(BOM):
                plain.read(len(BOM))
            header = plain.readline(LONGEST_ROW) if layout is Layout.CSV else b""
            decode = decoder_of(_NAME, layout, header, self._reading.key)
            yield from self._decoded(rows(plain, layout), decode, header.count(b"\n"))

    def _decoded(self, found: Iterator[Row], decode: Decode, line: int) -> Iterator[Event]:
        for row in found:
            try:
                event = event_of(row, decode)
            except BrokenLine as error:
                event = None
                if not self._reading.skip_broken:
                    remedy = "fix the line, or give --errors skip"
                    raise BrokenLine(f"{_NAME} line {line + 1}: {error.message}", remedy) from error
                self.broken.append((_NAME, line + 1, error.message))
            line += 0 if row.piece else row.raw.count(b"\n") or 1
            if event is not None:
                yield event
