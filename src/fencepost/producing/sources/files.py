"""A file, or the files of a folder by name, as a source that can be read again from any line.

A place is a file, a byte in it, and the checksum of everything before that byte: what was sent must still be there.
Bytes are those of the lines: in a file that is packed they are counted as they come out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from zlib import crc32

from fencepost.errors import PositionLost, Usage
from fencepost.producing.events import Event
from fencepost.producing.sources.layouts import Decode, Layout, layout_of
from fencepost.producing.sources.lines import LONGEST_ROW, Reading, Row, decoder_of, event_of, rows
from fencepost.producing.sources.opening import BLOCK, BOM, head_of, opened, require_file, require_lines
from fencepost.producing.sources.source import BrokenLine, Place, fingerprint_of

_HEAD = 64 * 1024  # bytes of the first file that tell a source from others


@dataclass
class _FilePosition:
    """Behind the last line that was read."""

    byte: int = 0
    line: int = 0
    checksum: int = 0  # of the bytes before
    number: int = 0  # lines, those of earlier files included


class Files:
    """The lines of one file, or of a folder's files in the order of their names. Empty lines are no events."""

    def __init__(self, path: Path, reading: Reading | None = None) -> None:
        """Raises Usage when there is nothing to read there."""
        self._reading = reading or Reading()
        try:
            self._single = not path.is_dir()
            self._paths = [path] if self._single else _files_of(path)
            self._size = sum(one.stat().st_size for one in self._paths)
            for one in self._paths:
                require_file(one)
                self._require_lines(one)
        except OSError as error:
            raise Usage(f"{path} cannot be read: {error.strerror}", "give a file, a folder, or - for stdin") from error
        except BrokenLine as error:
            raise Usage(error.message, error.remedy) from error
        if not self._paths:
            raise Usage(f"{path} has no files", "files whose names begin with a dot do not count")
        self.path = path
        self.fingerprint = fingerprint_of(os.fsencode(self._paths[0].name) + b"\n" + head_of(self._paths[0], _HEAD))
        self._at = 0  # the file that is being read
        self._spot = _FilePosition()
        self.broken: list[tuple[str, int, str]] = []  # file, line in it, reason: those that were skipped

    @property
    def size(self) -> int:
        """Bytes, of all files."""
        return self._size

    def holds(self, path: Path) -> bool:
        """Is that file one of those that are read, now or at the next run?"""
        here = self._paths if self._single else [self.path / path.name]
        return any(_same(one, path) for one in here)

    def _require_lines(self, path: Path) -> None:
        """Raises Usage for a file that has none, unless somebody said what it is."""
        layout = self._reading.layout or layout_of(path)
        if self._reading.layout is not Layout.TEXT:
            head = head_of(path)
            judged_by_line = layout is Layout.JSONL or self._reading.layout is not None
            require_lines(head.replace(b"\x00", b"") if judged_by_line else head, str(path), layout)

    def place(self) -> Place:
        return {
            "file": self._paths[self._at].name,
            "byte": self._spot.byte,
            "line": self._spot.line,
            "number": self._spot.number,
            "crc32": f"{self._spot.checksum:08x}",
            "fingerprint": self.fingerprint,
            "earlier": _count_and_checksum(self._paths[: self._at]),
        }

    def open(self, place: Place | None) -> Iterator[Event]:
        """Raises PositionLost where what was sent is not there any more as it was."""
        if place is not None:
            self._at = self._find(place)
            self._spot = _FilePosition(place["byte"], place["line"], int(place["crc32"], 16), place["number"])
            self.fingerprint = str(place["fingerprint"])  # of the first file, which may be gone by now
        return self._from_here()

    def _from_here(self) -> Iterator[Event]:
        while True:
            yield from self._events(self._paths[self._at])
            if self._at == len(self._paths) - 1:
                return
            self._at += 1
            self._spot = _FilePosition(number=self._spot.number)

    def _find(self, place: Place) -> int:
        """Which of the files the place is in, when everything before it is still as it was."""
        at = 0 if self._single else self._require_same_before(place)
        path = self._paths[at]
        size, checksum = _checksum(path, int(place["byte"]))
        if size < place["byte"]:
            raise PositionLost(
                f"{path} has {size} bytes, and {place['byte']} of it were sent: it is another file now, or was "
                "truncated",
                "restore the old one, or send this one under another --name",
            )
        if checksum != place["crc32"]:
            raise PositionLost(
                f"the first {place['byte']} bytes of {path} are not those that were sent",
                "restore the old file, or send this one under another --name",
            )
        return at

    def _require_same_before(self, place: Place) -> int:
        name = place["file"]
        at = next((at for at, path in enumerate(self._paths) if path.name == name), None)
        if at is None:
            raise PositionLost(
                f"{self.path / name} is gone, and {place['number']} lines of the folder were sent up to there",
                "restore it, or send the folder under another --name",
            )
        if at and _count_and_checksum(self._paths[:at]) != place["earlier"]:
            raise PositionLost(
                f"the files that sort before {name} are not those that were sent: {place['earlier'][0]} then, {at} now",
                "give new files names that sort after it, and remove finished ones all together or not at all",
            )
        return at

    def _events(self, path: Path) -> Iterator[Event]:
        with opened(path) as file:
            layout = self._reading.layout or layout_of(path)
            mark = BOM if file.read(len(BOM)) == BOM else b""  # says how the file is written, and is in no line
            file.seek(len(mark))
            header = file.readline(LONGEST_ROW) if layout is Layout.CSV else b""
            if self._spot.byte == 0:
                self._step(mark, 0)
                self._step(header)
            decode = decoder_of(str(path), layout, header, self._reading.key)
            file.seek(self._spot.byte)
            self._require_line_start(path, file)
            yield from self._decoded(path, rows(file, layout), decode)

    def _decoded(self, path: Path, found: Iterator[Row], decode: Decode) -> Iterator[Event]:
        for row in found:
            number = self._spot.number + 1
            try:
                event = event_of(row, decode, number)
            except BrokenLine as error:
                event = None
                line = self._spot.line + 1
                if not self._reading.skip_broken:
                    remedy = "fix the line and run again, or give --errors skip"
                    raise BrokenLine(f"{path} line {line}: {error.message}", remedy) from error
                self.broken.append((str(path), line, error.message))
            self._step(row.raw, 0 if row.piece else None)
            if event is not None:
                yield event

    def _step(self, raw: bytes, lines: int | None = None) -> None:
        spot = self._spot
        spot.byte += len(raw)
        spot.checksum = crc32(raw, spot.checksum)
        lines = (raw.count(b"\n") or bool(raw)) if lines is None else lines
        spot.line += lines
        spot.number += lines

    def _require_line_start(self, path: Path, file: IO[bytes]) -> None:
        """The last line of a file may have been sent without its end: then it must not have grown since."""
        if self._spot.line == 0:
            return
        file.seek(self._spot.byte - 1)
        before, after = file.read(1), file.read(1)
        file.seek(self._spot.byte)
        if before == b"\n" or not after:
            return
        if after not in b"\r\n":
            raise PositionLost(
                f"{path}: the line that ends at byte {self._spot.byte} was sent when it was the last, and has grown",
                "write complete lines, with their line ends, before they are sent",
            )
        self._step(file.readline())
        self._spot.line -= 1  # it was counted when it had no end
        self._spot.number -= 1


def _files_of(folder: Path) -> list[Path]:
    """In the order of their names' bytes, which is the same everywhere."""
    found = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    return sorted(found, key=lambda path: os.fsencode(path.name))


def _count_and_checksum(paths: list[Path]) -> list[int | str]:
    return [len(paths), f"{crc32(b'/'.join(os.fsencode(path.name) for path in paths)):08x}"]


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there yet
        return one.absolute() == other.absolute()


def _checksum(path: Path, size: int) -> tuple[int, str]:
    """How many of the first bytes there are, and their checksum."""
    found, done = 0, 0
    with opened(path) as file:
        while done < size and (block := file.read(min(size - done, BLOCK))):
            found = crc32(block, found)
            done += len(block)
    return done, f"{found:08x}"
