"""A producer's journal: what it meant to send, before it did, and what became of it. JSON lines, appended.

    {"journal": 1, "topic": "orders", "producer": "9f2c...", "guarantee": "exactly-once"}
    {"sent": [1, 500]}                      meant to be sent; ids are "<producer>:<number>"
    {"acked": [1, 480]}                     and "refused" or "unknown", with "why"
    {"begin": 3} {"commit": 3} {"abort": 3} {"unclear": 3}

Every line is with the operating system before the producer goes on, so that kill -9 leaves the truth: what was meant
and has no outcome is unknown. The last line may be torn. Only a journal is appended to: any other file stays as it is.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from fencepost.errors import Usage
from fencepost.producing.delivery_reports import Settled

_HEADER = b'{"journal": 1, "topic": '  # what the first line begins with
_LONGEST_HEADER = 64 * 1024


class Journal:
    """One file, one session of one producer."""

    _file = -1

    def __init__(self, path: Path | str, topic: str, guarantee: str) -> None:
        """Raises Usage when the file cannot be written, is no journal, or is another producer's at this moment."""
        self._path = Path(path)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK  # or a FIFO would be waited for
        try:
            self._file = os.open(self._path, flags, 0o644)
            self._require_journal()
            self._drop_torn_line()
        except OSError as error:
            self.close()
            raise self._unwritable(error) from error
        except Usage:
            self.close()
            raise
        self._topic, self._guarantee = topic, guarantee
        self._begun = False
        self.producer = ""  # whose events follow; known before the first of them

    def sent(self, first: int, last: int, id_: str | None = None) -> None:
        """Called before the first of them is handed to the client."""
        line: dict[str, object] = {"sent": [first, last]}
        self._write([line if id_ is None else line | {"id": id_}])

    def settled(self, parts: Iterable[Settled]) -> None:
        if lines := [_line(part) for part in parts]:
            self._write(lines)

    def transaction(self, word: str, number: int) -> None:
        """begin, commit, abort or unclear."""
        self._write([{word: number}])

    def close(self) -> None:
        """Harmless when closed already."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _require_journal(self) -> None:
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise Usage(f"the journal {self._path} is not a file", "give a file; it is created if missing")
        first = os.pread(self._file, _LONGEST_HEADER, 0)
        if first and not _begins_a_journal(first):
            raise Usage(f"{self._path} exists and is not a journal: it was not changed", "give another file name")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until it is closed, or its process is gone
        except BlockingIOError as error:
            raise Usage(
                f"another producer writes the journal {self._path}", "give each producer a journal of its own"
            ) from error

    def _drop_torn_line(self) -> None:
        """Half a line of a session that was killed: what it meant was not sent yet, what it knew is unknown now."""
        size = whole = os.fstat(self._file).st_size
        while whole and os.pread(self._file, 1, whole - 1) != b"\n":
            whole -= 1
        if whole < size:
            os.ftruncate(self._file, whole)

    def _write(self, lines: Iterable[dict[str, object]]) -> None:
        if not self._begun:
            self._begun = True
            header = {"journal": 1, "topic": self._topic, "producer": self.producer, "guarantee": self._guarantee}
            lines = [header, *lines]
        self._append("".join(json.dumps(line) + "\n" for line in lines).encode())

    def _append(self, data: bytes) -> None:
        try:
            while data:  # a full disk may take half of it first
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> Usage:
        return Usage(f"the journal {self._path} cannot be written: {error.strerror}", "give a writable file")


def _begins_a_journal(first: bytes) -> bool:
    """Its first line is ours; where there is no other, half of it may be all that a kill left."""
    line, end, _ = first.partition(b"\n")
    if not end:
        return line.startswith(_HEADER) or _HEADER.startswith(line)
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and "journal" in header


class NoJournal:
    """Where nobody asked for one."""

    producer = ""

    def sent(self, first: int, last: int, id_: str | None = None) -> None:
        pass

    def settled(self, parts: Iterable[Settled]) -> None:
        pass

    def transaction(self, word: str, number: int) -> None:
        pass

    def close(self) -> None:
        pass


def _line(part: Settled) -> dict[str, object]:
    line: dict[str, object] = {part.report.outcome.value: [part.first, part.last]}
    return line | {"why": part.report.why} if part.report.why else line
