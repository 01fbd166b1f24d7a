"""A file, or the files of a folder by name, as a source that can be read again from any line.

A place is a file, a byte in it, and the checksum of everything before that byte: what was sent must still be there.
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
from fencepost.producing.layouts import Decode, Layout, decoder, layout_of
from fencepost.producing.sources import Broken, Place, fingerprint_of

_HEAD = 64 * 1024  # bytes of the first file that tell a source from others
_BLOCK = 1024 * 1024
_LONGEST_ROW = 4 * 1024 * 1024  # a quote that is never closed must not take the whole file along


@dataclass(frozen=True)
class Reading:
    """How lines become events."""

    layout: Layout | None = None  # None: by each file's suffix
    key: str | None = None  # the field whose value is the event's key
    skip_broken: bool = False


@dataclass
class _Spot:
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
        self._single = not path.is_dir()
        try:
            self._paths = [path] if self._single else _files_of(path)
            self._size = sum(one.stat().st_size for one in self._paths)
            self._first = f"{self._paths[0].name}\n".encode() + _head(self._paths[0]) if self._paths else b""
        except OSError as error:
            raise Usage(f"{path} cannot be read: {error.strerror}", "give a file, a folder, or - for stdin") from error
        if not self._paths:
            raise Usage(f"{path} has no files", "files whose names begin with a dot do not count")
        self.path = path
        self.fingerprint = fingerprint_of(self._first)
        self._at = 0  # the file that is being read
        self._spot = _Spot()
        self.broken: list[tuple[str, int, str]] = []  # file, line in it, reason: those that were skipped

    @property
    def size(self) -> int:
        """Bytes, of all files."""
        return self._size

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
            self._spot = _Spot(place["byte"], place["line"], int(place["crc32"], 16), place["number"])
            self.fingerprint = str(place["fingerprint"])  # of the first file, which may be gone by now
        return self._from_here()

    def _from_here(self) -> Iterator[Event]:
        while True:
            yield from self._events(self._paths[self._at])
            if self._at == len(self._paths) - 1:
                return
            self._at += 1
            self._spot = _Spot(number=self._spot.number)

    def _find(self, place: Place) -> int:
        """Which of the files the place is in, when everything before it is still as it was."""
        at = 0 if self._single else self._require_same_before(place)
        path = self._paths[at]
        if path.stat().st_size < place["byte"]:
            raise PositionLost(
                f"{path} has {path.stat().st_size} bytes, and {place['byte']} of it were sent: it is another file"
                " now, or was cut",
                "bring the old one back, or send this one under another --name",
            )
        if _checksum(path, int(place["byte"])) != place["crc32"]:
            raise PositionLost(
                f"the first {place['byte']} bytes of {path} are not those that were sent",
                "bring the old file back, or send this one under another --name",
            )
        return at

    def _require_same_before(self, place: Place) -> int:
        name = place["file"]
        at = next((at for at, path in enumerate(self._paths) if path.name == name), None)
        if at is None:
            raise PositionLost(
                f"{self.path / name} is gone, and {place['number']} lines of the folder were sent up to there",
                "bring it back, or send the folder under another --name",
            )
        if at and _count_and_checksum(self._paths[:at]) != place["earlier"]:
            raise PositionLost(
                f"the files that sort before {name} are not those that were sent: {place['earlier'][0]} then, {at} now",
                "give new files names that sort behind it, and remove finished ones all together or not at all",
            )
        return at

    def _events(self, path: Path) -> Iterator[Event]:
        with path.open("rb", buffering=_BLOCK) as file:
            layout = self._reading.layout or layout_of(path)
            header = file.readline() if layout is Layout.CSV else b""
            if self._spot.byte == 0:
                self._step(header)
            decode = _decoder(path, layout, header, self._reading.key)
            file.seek(self._spot.byte)
            self._require_line_start(path, file)
            yield from self._decoded(path, _rows(file, layout), decode)

    def _decoded(self, path: Path, rows: Iterator[bytes], decode: Decode) -> Iterator[Event]:
        for raw in rows:
            text = raw.rstrip(b"\r\n")
            number = self._spot.number + 1
            try:
                event = Event(*decode(text), -1, number) if text else None
            except Broken as error:
                event = None
                line = self._spot.line + 1
                if not self._reading.skip_broken:
                    remedy = "mend the line and go on, or give --errors skip"
                    raise Broken(f"{path} line {line}: {error.message}", remedy) from error
                self.broken.append((str(path), line, error.message))
            self._step(raw)
            if event is not None:
                yield event

    def _step(self, raw: bytes) -> None:
        spot = self._spot
        spot.byte += len(raw)
        spot.checksum = crc32(raw, spot.checksum)
        lines = raw.count(b"\n") or bool(raw)
        spot.line += lines
        spot.number += lines

    def _require_line_start(self, path: Path, file: IO[bytes]) -> None:
        """The last line of a file may have been sent without its end: then it must not have grown since."""
        if self._spot.byte == 0:
            return
        file.seek(self._spot.byte - 1)
        before, after = file.read(1), file.read(1)
        file.seek(self._spot.byte)
        if before == b"\n" or not after:
            return
        if after not in b"\r\n":
            raise PositionLost(
                f"{path}: the line that ends at byte {self._spot.byte} was sent when it was the last, and has grown",
                "let a line be complete, with its line end, before it is sent",
            )
        self._step(file.readline())
        self._spot.line -= 1  # it was counted when it had no end
        self._spot.number -= 1


def _decoder(path: Path, layout: Layout, header: bytes, key: str | None) -> Decode:
    try:
        return decoder(layout, header, key)
    except Broken as error:
        raise Broken(f"{path} line 1: {error.message}", "give it a header that names the columns") from error


def _rows(file: IO[bytes], layout: Layout) -> Iterator[bytes]:
    if layout is not Layout.CSV:
        yield from file
        return
    row, open_quotes = b"", 0
    for raw in file:
        row += raw
        open_quotes ^= raw.count(b'"') & 1
        if not open_quotes or len(row) > _LONGEST_ROW:
            yield row
            row, open_quotes = b"", 0
    if row:
        yield row


def _files_of(folder: Path) -> list[Path]:
    """In the order of their names' bytes, which is the same everywhere."""
    found = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    return sorted(found, key=lambda path: os.fsencode(path.name))


def _count_and_checksum(paths: list[Path]) -> list[int | str]:
    return [len(paths), f"{crc32(b'/'.join(os.fsencode(path.name) for path in paths)):08x}"]


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


def _checksum(path: Path, size: int) -> str:
    found = 0
    with path.open("rb") as file:
        while size > 0 and (block := file.read(min(size, _BLOCK))):
            found = crc32(block, found)
            size -= len(block)
    return f"{found:08x}"
