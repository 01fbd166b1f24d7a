"""A producer's journal: what it meant to send, before it did, and what became of it. JSON lines, appended.

    {"journal": 1, "topic": "orders", "producer": "9f2c...", "guarantee": "exactly-once"}
    {"sent": [1, 500]}                      meant to be sent; ids are "<producer>:<number>"
    {"acked": [1, 480]}                     and "refused" or "unknown", with "why"
    {"begin": 3} {"commit": 3} {"abort": 3} {"unclear": 3}

Every line is with the operating system before the producer goes on, so that kill -9 leaves the truth: what was meant
and has no outcome is unknown. The last line may be torn.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from fencepost.errors import Usage
from fencepost.producing.book import Settled


class Journal:
    """One file, one session of one producer."""

    def __init__(self, path: Path | str, topic: str, guarantee: str) -> None:
        """Raises Usage when the file cannot be written."""
        self._path = Path(path)
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._unwritable(error) from error
        self._drop_torn_line()
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
        return Usage(f"the journal {self._path} cannot be written: {error.strerror}", "give a file that can be")


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
    line: dict[str, object] = {part.fate.outcome.value: [part.first, part.last]}
    return line | {"why": part.fate.why} if part.fate.why else line
