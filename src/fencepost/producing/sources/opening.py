"""A file's bytes as its lines have them: gzip and zstd are unpacked on the way, what has no lines is refused.

What a file is, its first bytes say; its name must not say otherwise.
"""

from __future__ import annotations

import gzip
import io
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from fencepost.errors import Usage
from fencepost.producing.sources.source import BrokenLine

BLOCK = 1024 * 1024
BOM = b"\xef\xbb\xbf"
HEAD = 4096  # bytes that tell what a file is
_GZIP, _ZSTD = b"\x1f\x8b", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
_PACKED_SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_NO_LINES = {
    "a zip archive": re.compile(rb"PK(\x03\x04|\x05\x06)"),
    "packed with bzip2": re.compile(rb"BZh[1-9]1AY&SY"),
    "packed with xz": re.compile(rb"\xfd7zXZ\x00"),
    "packed with lz4": re.compile(rb"\x04\x22\x4d\x18"),
    "packed with snappy": re.compile(rb"\xff\x06\x00\x00sNaPpY"),
    "an Avro file": re.compile(rb"Obj\x01"),
    "a Parquet file": re.compile(rb"PAR1[\x15\x00]"),
}
_WIDE = re.compile(rb"\xff\xfe|\xfe\xff|\x00\x00\xfe\xff")


def require_file(path: Path) -> None:
    """Raises OSError, and Usage for what is there and is no file: a FIFO would never end, or never begin."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise Usage(f"{path} is {kind}, which cannot be read again", "read it through standard input: --file - <PATH")


def packing_of(path: Path) -> str:
    """gzip, zstd, or an empty text for neither. Raises OSError, and Usage where the name says otherwise."""
    with path.open("rb") as file:
        found = packing_in(file.read(4))
    named = _PACKED_SUFFIXES.get(path.suffix.lower(), "")
    if named and not found:
        raise Usage(f"{path} is not packed with {named}", "was it truncated? If not, rename it")
    return found


def packing_in(head: bytes) -> str:
    """By the first bytes."""
    return "gzip" if head.startswith(_GZIP) else "zstd" if _ZSTD.match(head) else ""


def suffix_of(path: Path) -> str:
    """The suffix that says what the lines are: `.csv` of orders.csv.gz."""
    inner = path.with_suffix("") if path.suffix.lower() in _PACKED_SUFFIXES else path
    return inner.suffix.lower()


@contextmanager
def reading_errors_named(name: str) -> Iterator[None]:
    """What cannot be read further in the block raises BrokenLine."""
    try:
        yield
    except (EOFError, zlib.error, OSError) as error:
        raise BrokenLine(
            f"{name} cannot be read further: {_why(error)}", "restore the complete file, and run again"
        ) from error


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader[Any]]:
    """Its bytes, unpacked, from the first. Raises Usage; BrokenLine, in the block too, where they cannot be read on."""
    with (
        reading_errors_named(str(path)),
        io.BufferedReader(io.FileIO(path), BLOCK) as file,
        unpacked(file, packing_of(path), str(path)) as plain,
    ):
        yield plain


@contextmanager
def unpacked(file: io.BufferedReader[Any], packing: str, name: str) -> Iterator[io.BufferedReader[Any]]:
    """The same bytes, or what is packed in them, without ever holding more than a block."""
    match packing:
        case "gzip":
            with gzip.GzipFile(fileobj=file) as packed:
                yield io.BufferedReader(packed, BLOCK)
        case "zstd":
            yield io.BufferedReader(_Zstd(file, name), BLOCK)
        case _:
            yield file


class _Zstd(io.RawIOBase):
    """A zstd stream through pyarrow, which tells a cut one from one that ended; seeks by reading on, or again."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        try:
            import pyarrow as pa
        except ModuleNotFoundError as error:
            raise Usage(
                f"{name} is packed with zstd, which needs pyarrow", "pip install 'fencepost[postgres]'"
            ) from error

        def begin() -> Any:
            return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")

        self._open = begin
        self._file = file
        self._at = 0
        self._plain = self._open()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        block = self._plain.read(len(buffer))
        buffer[: len(block)] = block
        self._at += len(block)
        return len(block)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._at
        elif whence == io.SEEK_END:
            raise io.UnsupportedOperation("the end is not known before it is reached")
        if offset < self._at:
            self._file.seek(0)
            self._plain, self._at = self._open(), 0
        while self._at < offset and (block := self._plain.read(min(BLOCK, offset - self._at))):
            self._at += len(block)
        return self._at


def require_lines(head: bytes, name: str, layout: str) -> None:
    """Raises Usage for what has no lines of text."""
    for what, begins in _NO_LINES.items():
        if begins.match(head):
            raise Usage(f"{name} is {what}", "unpack it, or write it out as lines, and send that")
    if _WIDE.match(head):
        raise Usage(f"{name} is UTF-16 or UTF-32", "make it UTF-8: iconv -f UTF-16 -t UTF-8")
    if b"\x00" in head:
        raise Usage(f"{name} has NUL bytes: it is not text", f"give --input {layout} to send its lines as they are")


def head_of(path: Path, size: int = HEAD) -> bytes:
    """Its first bytes, unpacked. Raises Usage, BrokenLine."""
    with opened(path) as file:
        return file.read(size)


def _why(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "its packed data is cut off"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
